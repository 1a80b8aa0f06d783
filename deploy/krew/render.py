#!/usr/bin/env python3
"""Write the archive of the plugin and its krew manifest, for a release.

    deploy/krew/render.py --uri URL --homepage URL [--package URL#sha256=HEX] [--version VERSION]
        [--to dist/krew]

writes kubectl-leadline.tar.gz (the same bytes at every call) and leadline.yaml with its checksum.
URL is where the archive will be published. --package is the wheel that the launcher may have uv or
pipx download where no Leadline is installed; without it, the launcher downloads nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import tarfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ARCHIVE = "kubectl-leadline.tar.gz"
MANIFEST = "leadline.yaml"
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?")
_PACKAGE = re.compile(r"https://[A-Za-z0-9._~:/?&=%+-]+\.whl#sha256=[0-9a-f]{64}")
_PLACE = re.compile(r"@[A-Z0-9]+@")


def archive(version: str, package: str = "") -> bytes:
    """Return the launcher of this version and the licence as a gzipped tar."""
    launcher = (HERE / "kubectl-leadline").read_text("utf-8")
    launcher = launcher.replace("@VERSION@", version).replace("@PACKAGE@", package)
    stream = io.BytesIO()
    # No times and no owners: every build has the same checksum.
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content, mode in (
            ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
            ("kubectl-leadline", launcher.encode(), 0o755),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def manifest(version: str, uri: str, homepage: str, packed: bytes) -> str:
    """Return the template with its values. Raise ValueError if a placeholder has no value."""
    filled = (HERE / MANIFEST).read_text("utf-8").partition("apiVersion:")
    text = filled[1] + filled[2]
    for place, value in {
        "@VERSION@": version,
        "@URI@": uri,
        "@HOMEPAGE@": homepage,
        "@SHA256@": hashlib.sha256(packed).hexdigest(),
    }.items():
        text = text.replace(place, value)
    if left := _PLACE.findall(text):
        raise ValueError(f"no value for {', '.join(left)}")
    return text


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uri", required=True, help="where the archive will be published")
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--package", default="", help="the wheel, URL#sha256=HEX; default: none")
    parser.add_argument("--version", default=project["version"], help="default: project version")
    parser.add_argument("--to", type=Path, default=ROOT / "dist" / "krew")
    asked = parser.parse_args()
    version = asked.version.removeprefix("v")
    if not _VERSION.fullmatch(version):
        parser.error(f"krew needs a version of three numbers, not {asked.version!r}")
    if asked.package and not _PACKAGE.fullmatch(asked.package):
        parser.error("--package is the URL of a wheel with its checksum: URL#sha256=HEX")
    packed = archive(version, asked.package)
    asked.to.mkdir(parents=True, exist_ok=True)
    (asked.to / ARCHIVE).write_bytes(packed)
    (asked.to / MANIFEST).write_text(manifest(version, asked.uri, asked.homepage, packed), "utf-8")
    print(f"{asked.to / ARCHIVE}\n{asked.to / MANIFEST}")  # noqa: T201


if __name__ == "__main__":
    main()
