"""Container images without a registry: docker-archive tars of this machine's own programs.

`registry.example/leadline-lab/pause:1`   what containerd keeps a pod's namespaces with
`registry.example/leadline-lab/runner:1`  a shell, coreutils and fio: what a runner pod must have
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PAUSE = "registry.example/leadline-lab/pause:1"
RUNNER = "registry.example/leadline-lab/runner:1"

# Coreutils and not busybox: the runner needs `date +%N`.
_SHELL = """
sh bash fio sha256sum gzip base64 cat tar sleep date setsid kill test [ stat dd blockdev mktemp
mkdir rm mv cp ln ls touch truncate chmod head tail wc tr cut sort grep sed awk env id whoami true
false echo printf printenv seq timeout sync df du find ps nproc uname tee readlink dirname
basename mkfifo expr md5sum od cmp
"""
PROGRAMS = tuple(_SHELL.split())

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

_PAUSE_C = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { exit(0); }
static void reap(int number) { while (waitpid(-1, NULL, WNOHANG) > 0) { } }
int main(void) {
    signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap);
    for (;;) pause();
}
"""

TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nonroot:x:1000:1000:nonroot:/home/nonroot:/bin/sh\n",
    "etc/group": "root:x:0:\nnonroot:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class MissingProgram(RuntimeError):
    """This machine lacks a program that the image needs."""


def libraries(program: Path) -> list[Path]:
    """The shared libraries that `program` loads, the loader included; none for a static one."""
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if told.returncode:
        return []
    if "not found" in told.stdout:
        raise MissingProgram(f"a library of {program} is not here:\n{told.stdout}")
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", told.stdout)]


def runner_files(programs: Iterable[str] = PROGRAMS) -> dict[str, Path]:
    """Path in the image -> file of this machine: the programs with all of their libraries."""
    files: dict[str, Path] = {}
    for name in programs:
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin")
        if found is None:
            raise MissingProgram(f"the image needs {name}, which this machine has not")
        program = Path(found).resolve()
        files[f"usr/bin/{name}"] = program
        for library in libraries(program):
            # At the merged /usr, so that one path serves both spellings.
            inside = str(library).lstrip("/")
            files[inside if inside.startswith("usr/") else f"usr/{inside}"] = library.resolve()
    return files


def _layer(files: Mapping[str, Path], texts: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:

        def add(name: str, mode: int, content: bytes | None = None, link: str = "") -> None:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            if content is not None:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
                return
            entry.type = tarfile.SYMTYPE if link else tarfile.DIRTYPE
            entry.linkname = link
            tar.addfile(entry)

        for folder in (
            "usr",
            "usr/bin",
            "usr/lib",
            "usr/lib64",
            "etc",
            "root",
            "proc",
            "sys",
            "dev",
        ):
            add(folder, 0o755)
        add("tmp", 0o1777)
        add("home", 0o755)
        add("home/nonroot", 0o777)
        for name in ("bin", "lib", "lib64"):
            add(name, 0o777, link=f"usr/{name}")
        add("sbin", 0o777, link="usr/bin")
        for name, text in texts.items():
            add(name, 0o644, text.encode())
        for name, source in sorted(files.items()):
            add(name, 0o755, source.read_bytes())
    return stream.getvalue()


def write(
    tar: Path,
    tag: str,
    files: Mapping[str, Path],
    *,
    command: list[str],
    texts: Mapping[str, str] | None = None,
    user: str = "",
) -> Path:
    """Write the image of one layer to `tar` as a docker archive; the same input, the same bytes."""
    layer = _layer(files, texts or {})
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {
                "Cmd": command,
                "User": user,
                "Env": ["PATH=/usr/bin:/bin", "LC_ALL=C"],
                "WorkingDir": "/",
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
            },
        }
    ).encode()
    listing = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(tar, "w") as archive:
        for name, content in (
            ("config.json", config),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(listing).encode()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return tar


def pause(folder: Path) -> Path:
    """Write pause.tar below `folder`. Needs a C compiler."""
    source, program = folder / "pause.c", folder / "pause"
    source.write_text(_PAUSE_C)
    subprocess.run(
        ["cc", "-static", "-Os", "-s", "-o", str(program), str(source)],
        check=True,
        capture_output=True,
    )
    return write(
        folder / "pause.tar", PAUSE, {"usr/bin/pause": program}, command=["/usr/bin/pause"]
    )


def runner(folder: Path) -> Path:
    """Write runner.tar below `folder`, from this machine's fio, shell and coreutils."""
    return write(
        folder / "runner.tar",
        RUNNER,
        runner_files(),
        command=["/bin/sh"],
        texts=TEXTS,
    )
