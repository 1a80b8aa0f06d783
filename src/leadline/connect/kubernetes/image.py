"""The image of runner pods: built with the machine's program for images, and brought to the nodes.

No image has a name that Leadline does not own. `localhost/` is no registry that another user could
register; a user's own registry is named by that user.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leadline import errors
from leadline.connect import programs
from leadline.environment import IMAGES
from leadline.errors import LeadlineError
from leadline.version import __version__

DEFAULT_NAME = f"localhost/leadline-runner:{__version__}"
BUILDERS = ("buildah", "podman", "docker")
PLACES = ("kind", "minikube", "k3s", "containerd")
# Packages come over the network.
_BUILD_S = 1800.0
_COPY_S = 900.0
_STAGE = "runner"


def runner_containerfile() -> str:
    """Return the stage of the shipped Containerfile that makes the image of runner pods."""
    installed = resources.files("leadline.data").joinpath("Containerfile")
    checkout = Path(__file__).parents[4] / "Containerfile"
    text = (installed if installed.is_file() else checkout).read_text(encoding="utf-8")
    lines = text.splitlines()
    base = next(line for line in lines if line.startswith("ARG BASE="))
    begin = next(number for number, line in enumerate(lines) if line.endswith(f" AS {_STAGE}"))
    end = next(
        number for number in range(begin + 1, len(lines)) if lines[number].startswith("FROM ")
    )
    return "\n".join([base, *lines[begin:end]]) + "\n"


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images: buildah, podman or docker."""

    program: str

    def build(self, name: str, containerfile: str, context: Path | None, base: str | None) -> None:
        """Build an image. `context` None: the Containerfile copies no files."""
        with tempfile.TemporaryDirectory(prefix="leadline-image-") as folder:
            file = Path(folder) / "Containerfile"
            file.write_text(containerfile, encoding="utf-8")
            arguments = ["--build-arg", f"BASE={base}"] if base else []
            # A base of this machine (`localhost/`) is in no registry.
            if base and base.startswith("localhost/") and self.program != "docker":
                arguments.append("--pull=never")
            where = str(context or folder)
            self._run("build", "-t", name, "-f", str(file), *arguments, where, bound_s=_BUILD_S)

    def has(self, name: str) -> bool:
        """Return whether the program's own storage has an image of that name."""
        inspect = (
            ["inspect", "--type", "image"] if self.program == "buildah" else ["image", "inspect"]
        )
        status, _, _ = programs.run(self.program, *inspect, name, bound_s=60.0, variables=IMAGES)
        return status == 0

    def save(self, name: str, archive: Path) -> None:
        """Write an image as a docker archive, which every container runtime imports."""
        archive.unlink(missing_ok=True)
        if self.program == "buildah":
            self._run("push", name, f"docker-archive:{archive}:{name}", bound_s=_COPY_S)
        else:
            self._run("save", "-o", str(archive), name, bound_s=_COPY_S)

    def push(self, name: str, reference: str) -> None:
        """Push an image to a registry, with the login of the program."""
        if self.program == "buildah":
            self._run("push", name, f"docker://{reference}", bound_s=_COPY_S)
        else:
            self._run("tag", name, reference, bound_s=60.0)
            self._run("push", reference, bound_s=_COPY_S)

    def _run(self, *arguments: str, bound_s: float) -> None:
        _run([self.program, *arguments], bound_s)


def find_builder(wanted: str | None) -> Builder:
    """Return the wanted program, else the first that is installed. Raises
    LeadlineError(`image-unavailable`)."""
    for program in [wanted] if wanted else BUILDERS:
        if programs.find(program):
            return Builder(program)
    raise LeadlineError(
        errors.IMAGE_UNAVAILABLE,
        f"there is no {wanted}" if wanted else f"there is none of {', '.join(BUILDERS)}",
        hint="install one of them (Debian: apt-get install buildah), or load an archive that "
        "another machine wrote (`leadline kubernetes image build -o FILE`)",
    )


def import_command(place: str, archive: Path) -> list[str]:
    """Return the command that brings an archive to the nodes of a place: `kind[:CLUSTER]`,
    `minikube[:PROFILE]`, `k3s`, `containerd[:SOCKET]`. Raises LeadlineError(`usage`)."""
    kind, _, name = place.partition(":")
    match kind:
        case "kind":
            return [
                "kind",
                "load",
                "image-archive",
                str(archive),
                *(["--name", name] if name else []),
            ]
        case "minikube":
            return ["minikube", *(["-p", name] if name else []), "image", "load", str(archive)]
        case "k3s" if not name:
            return ["k3s", "ctr", "images", "import", str(archive)]
        case "containerd":
            address = ["--address", name] if name else []
            return ["ctr", *address, "-n", "k8s.io", "images", "import", str(archive)]
    raise LeadlineError(
        errors.USAGE,
        f"{place!r} is no place for images",
        context=[f"places: {', '.join(PLACES)}, registry:HOST/NAME:TAG"],
        hint="kind:CLUSTER, minikube:PROFILE and containerd:SOCKET name one of several",
    )


def import_archive(place: str, archive: Path) -> None:
    """Bring an archive to the nodes of a place. Raises LeadlineError: `usage`,
    `image-unavailable`."""
    command = import_command(place, archive)
    if not programs.find(command[0]):
        raise LeadlineError(
            errors.IMAGE_UNAVAILABLE,
            f"there is no {command[0]} to load the image into {place}",
            hint=f"on a machine that has it: {' '.join(command)}",
        )
    _run(command, _COPY_S)


def _run(command: Sequence[str], bound_s: float) -> None:
    status, out, err = programs.run(*command, bound_s=bound_s, variables=IMAGES)
    if status == 0:
        return
    lines = [line for line in (err.strip() or out.strip()).splitlines() if line.strip()]
    reason = f"status {status}" if status is not None else f"no end after {bound_s:g} s"
    raise LeadlineError(
        errors.IMAGE_UNAVAILABLE,
        f"{' '.join(command[:2])} failed: {reason}",
        context=lines[-6:],
        hint="the messages are from that program; --base and --containerfile choose what is built",
    )
