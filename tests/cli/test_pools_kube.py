"""`leadline pools ... --kube`: what is refused before any cluster is asked."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Leadline, refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "--kube", "--lab", "demo"), "--kube and --lab name two ways to a cluster"),
        (("remove", "--all", "--kube", "--id", "x"), "--kube and --id name two ways"),
        (("create", "--context", "prod"), "--context has an effect with --kube only"),
        (("create", "--failure-domain", "zone"), "--failure-domain has an effect with --kube only"),
        (("create", "--kube", "--filesystem", "fs"), "--filesystem has no effect with --kube"),
        (("create", "--kms", "vault"), "--kms has an effect with --kube only"),
        (("create", "--key-rotation", "@weekly"), "--key-rotation has an effect with --kube only"),
        (
            ("create", "--pg-num", "8", "--target-ratio", "0.1", "--lab", "demo"),
            "--pg-num and --target-ratio contradict",
        ),
        (("create", "--ec-profile", "k=4", "--lab", "demo"), "--ec-profile k=4 is not accepted"),
        (
            ("create", "--ec-profile", "stripe_unit=16K", "--kube"),
            "--ec-profile stripe_unit=16K is not accepted",
        ),
        (("remove", "rep2", "--kube", "--destroy-data", "rep2"), "volumes are never removed"),
        (("remove", "--kube"), "name the pools to remove"),
        (("create", "rep33x", "--kube"), "is not a pool name of a known form"),
    ],
)
def test_options_that_contradict_each_other(
    leadline: Leadline, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(leadline("pools", *arguments), 2, "usage")
