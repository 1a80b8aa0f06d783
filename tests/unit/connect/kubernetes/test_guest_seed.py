"""What a guest is told at its first boot."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from leadline.connect.kubernetes.machines import script, user_data
from leadline.plan.target_url import BootImage, VmSettings

_BOOT = BootImage(container_disk="registry.example/boot:1")


def test_cloud_init_reads_the_scripts_as_they_are() -> None:
    text = user_data(VmSettings(boot=_BOOT))
    assert text.startswith("#cloud-config\n")
    seed = yaml.safe_load(text)
    written = {write_file["path"]: write_file["content"] for write_file in seed["write_files"]}
    assert written["/usr/local/lib/leadline/guest_agent.sh"] == script("guest_agent.sh")
    assert seed["runcmd"] == [["sh", "/usr/local/lib/leadline/guest_setup.sh", "fio"]]


def test_packages_and_proxy_reach_the_setup_as_words() -> None:
    settings = VmSettings(boot=_BOOT, packages=("fio", "a b"), proxy="http://proxy:3128/?a=$x")
    (command,) = yaml.safe_load(user_data(settings))["runcmd"]
    assert command[-2:] == ["fio", "a b"]
    assert "https_proxy=http://proxy:3128/?a=$x" in command[1:5]


@pytest.mark.parametrize("name", ["guest_agent.sh", "guest_setup.sh"])
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_scripts_are_of_a_plain_shell(name: str, shell: str) -> None:
    checked = subprocess.run(
        [shell, "-n"], input=script(name), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_secret_may_hold_it() -> None:
    """1 MiB is a Secret's limit; cloud-init's own for user data is of the cloud."""
    assert len(user_data(VmSettings(boot=_BOOT))) < 16384
