"""`leadline kubernetes image build|load`: the image of runner pods, and the way to the nodes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from leadline import errors
from leadline.cli.options import FILE
from leadline.cli.output import echo_line
from leadline.cli.progress import steps
from leadline.errors import Exit, LeadlineError


@click.group()
def command() -> None:
    """Make the image that runner pods run, and bring it to the nodes of a cluster.

    Leadline has no default image: a plan names one (`image:`), or `--runner-image`, or
    $LEADLINE_RUNNER_IMAGE.

    \b
    Example:
        leadline kubernetes image build
        leadline kubernetes image load kind
        leadline kubernetes image load registry:registry.internal/storage/runner:1
    """


@command.group()
def image() -> None:
    """Build the image of runner pods, or load it into a cluster or registry."""


_options = (
    click.option("--with", "program", metavar="PROGRAM", help="buildah, podman or docker."),
    click.option(
        "--name", metavar="IMAGE", help="Name of the image; else localhost/leadline-runner:VERSION."
    ),
    click.option(
        "--base", metavar="IMAGE", help="Debian image to build on; else debian:bookworm-slim."
    ),
    click.option(
        "--containerfile",
        type=FILE,
        metavar="FILE",
        help="Your own, in place of Leadline's; its folder is the build context.",
    ),
)


def _with_options(function: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_options):
        function = option(function)
    return function


@image.command()
@_with_options
@click.option("-o", "archive", type=FILE, metavar="FILE", help="Also write a docker archive.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def build(archive: Path | None, quiet: bool, **given: object) -> Exit:
    """Build the image: fio, pgbench, sysbench, a shell and GNU coreutils on Debian.

    \b
    Example:
        leadline kubernetes image build -o runner.tar
        leadline kubernetes image build --base registry.internal/debian:12-slim --with podman
    """
    made = _Image(**given)  # type: ignore[arg-type]
    with steps("image", quiet=quiet) as note:
        note(f"building {made.name} with {made.builder.program}")
        made.build()
        if archive is not None:
            note(f"writing {archive}")
            made.builder.save(made.name, archive)
    _say_name(made.name)
    return Exit.ANSWERED


@image.command()
@click.argument("place")
@_with_options
@click.option(
    "--archive", type=FILE, metavar="FILE", help="Load this archive; nothing is built or saved."
)
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def load(place: str, archive: Path | None, quiet: bool, **given: object) -> Exit:
    """Load the image into PLACE; build it first where this machine has none of that name.

    PLACE is kind[:CLUSTER], minikube[:PROFILE], k3s or containerd[:SOCKET] (this node), or
    registry:HOST/NAME:TAG, which is pushed with the login of buildah, podman or docker.

    \b
    Example:
        leadline kubernetes image load kind:test
        leadline kubernetes image load containerd --archive runner.tar
        leadline kubernetes image load registry:registry.internal/storage/runner:1
    """
    from leadline.connect.kubernetes.image import import_archive, import_command

    reference = place.removeprefix("registry:") if place.startswith("registry:") else ""
    if not reference:
        import_command(place, Path())  # a wrong place ends here, before a build
    elif archive is not None:
        raise LeadlineError(
            errors.USAGE,
            "an archive is loaded into nodes, and a registry gets an image",
            hint="omit --archive; --name names the image to push",
        )
    if archive is not None:
        import_archive(place, archive)
        return Exit.ANSWERED
    made = _Image(**given)  # type: ignore[arg-type]
    with steps("image", quiet=quiet) as note:
        if not made.builder.has(made.name):
            note(f"building {made.name} with {made.builder.program}")
            made.build()
        if reference:
            note(f"pushing {reference}")
            made.builder.push(made.name, reference)
        else:
            note(f"loading {made.name} into {place}")
            with tempfile.TemporaryDirectory(prefix="leadline-image-", dir="/var/tmp") as folder:
                saved = Path(folder) / "image.tar"
                made.builder.save(made.name, saved)
                import_archive(place, saved)
    _say_name(reference or made.name)
    return Exit.ANSWERED


class _Image:
    """The image that the options describe, and the program that builds it."""

    def __init__(
        self, program: str | None, name: str | None, base: str | None, containerfile: Path | None
    ) -> None:
        from leadline.connect.kubernetes.image import DEFAULT_NAME, find_builder

        self.builder = find_builder(program)
        self.name = name or DEFAULT_NAME
        self._base, self._file = base, containerfile

    def build(self) -> None:
        from leadline.connect.kubernetes.image import runner_containerfile

        if self._file is None:
            self.builder.build(self.name, runner_containerfile(), None, self._base)
            return
        try:
            text = self._file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LeadlineError(
                errors.USAGE, f"{str(self._file)!r} cannot be read: {error}"
            ) from error
        self.builder.build(self.name, text, self._file.absolute().parent, self._base)


def _say_name(name: str) -> None:
    echo_line(name)
    echo_line(
        f"use it: export LEADLINE_RUNNER_IMAGE={name}, or `image: {name}` in a plan", err=True
    )
