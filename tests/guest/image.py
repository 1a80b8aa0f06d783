"""The guest's disks: Debian with the module of OpenZFS from backports, and Leadline's libraries.

Everything comes from the mirror that apt uses here, by package name. What is made is kept below
XDG_CACHE_HOME; the compiler that the module needs goes into a root of its own, which is thrown
away.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
_RELEASE = "bookworm"
_WITHIN = Path(__file__).parent / "within"
_KERNEL = "linux-image-cloud-amd64"
_PACKAGES = (
    _KERNEL,
    "zfsutils-linux",
    *("udev", "kmod", "iproute2", "util-linux", "mount", "e2fsprogs", "procps"),
    *("python3", "fio", "nvme-cli", "ceph-common", "dmsetup", "nfs-kernel-server"),
)
_BUILDING = (_KERNEL, "linux-headers-cloud-amd64", "zfs-dkms")
# The initrd holds no more than the way to the disk.
_INITRAMFS = '"$1/etc/initramfs-tools'
_SMALL_INITRD = (
    f'--customize-hook=echo MODULES=list >{_INITRAMFS}/conf.d/leadline"',
    f"--customize-hook=printf '%s\\n' virtio_pci virtio_blk ext4 >>{_INITRAMFS}/modules\"",
    '--customize-hook=chroot "$1" update-initramfs -u',
)
_PIN = "Package: src:zfs-linux\nPin: release n={suite}\nPin-Priority: 900\n"
_NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "setpriv": "util-linux",
    "strip": "binutils",
    "apt-get": "apt",
    "uv": "uv",
}
_RBD_DRIVER = "qemu-block-extra"


def lacks() -> list[str]:
    """Packages that are missing for such a guest."""
    missing = [package for name, package in _NEEDED.items() if shutil.which(name) is None]
    if not any(Path("/usr/lib").glob("*/qemu/block-rbd.so")):
        missing.append(_RBD_DRIVER)
    return missing


def image() -> Path:
    """The folder of vmlinuz, initrd.img and root.img; made once, and anew when the packages or what
    runs within change."""
    recipe = hashlib.sha256(repr((_RELEASE, _PACKAGES, _SMALL_INITRD, _PIN)).encode())
    for file in sorted(_WITHIN.iterdir()):
        recipe.update(file.read_bytes())
    made = _cache() / f"zfs-root-{recipe.hexdigest()[:12]}"
    if (made / "root.img").exists():
        return made
    for old in _cache().glob("zfs-root-*"):
        shutil.rmtree(old, ignore_errors=True)
    with _new(made) as folder, _sources() as sources:
        root = folder / "root"
        _debian(_PACKAGES, sources, folder / "root.tar", _SMALL_INITRD)
        root.mkdir()
        _run("tar", "-xf", folder / "root.tar", "-C", root, "--exclude=./dev/*")
        (modules,) = (root / "lib" / "modules").iterdir()
        shutil.copytree(_zfs(modules.name, sources), modules / "updates" / "dkms")
        _run("chroot", root, "depmod", modules.name)
        for name in ("vmlinuz", "initrd.img"):
            shutil.copyfile(root / "boot" / f"{name}-{modules.name}", folder / name)
        for file in _WITHIN.iterdir():
            _run("install", "-D", "-m", "755", file, root / "leadline" / file.name)
        _disk(root, folder / "root.img", spare_bytes=400 << 20)
        shutil.rmtree(root)
        (folder / "root.tar").unlink()
    return made


def libraries() -> Path:
    """A disk with what Leadline is built on, for the guest's Python, as uv.lock has it."""
    asked = ("--frozen", "--quiet", "--no-dev", "--no-emit-project")
    exported = subprocess.run(
        ["uv", "export", *asked], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    key = hashlib.sha256(exported.encode()).hexdigest()[:12]
    made = _cache() / f"libraries-{key}"
    if (made / "libraries.img").exists():
        return made / "libraries.img"
    with _new(made) as folder:
        (folder / "requirements.txt").write_text(exported)
        target = folder / "libraries"
        _run(
            *("uv", "pip", "install", "--quiet", "--target", target, "--only-binary", ":all:"),
            *("--python-version", "3.11", "--python-platform", "x86_64-unknown-linux-gnu"),
            *("--compile-bytecode", "-r", folder / "requirements.txt"),
        )
        _disk(target, folder / "libraries.img", spare_bytes=64 << 20)
        shutil.rmtree(target)
    return made / "libraries.img"


def _zfs(kernel: str, sources: Path) -> Path:
    """The folder of zfs.ko and spl.ko for a kernel; built once (some minutes)."""
    made = _cache() / f"zfs-modules-{kernel}"
    if not made.exists():
        with _new(made) as folder:
            modules = f"lib/modules/{kernel}/updates/dkms"
            _debian(
                _BUILDING,
                sources,
                Path("/dev/null"),
                (f"--customize-hook=cp \"$1\"/{modules}/*.ko '{folder}'", "--format=null"),
            )
            for module in folder.iterdir():
                _run("strip", "--strip-debug", module)
    return made


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leadline" / "guest"


@contextmanager
def _new(made: Path) -> Iterator[Path]:
    """A folder that becomes `made` when all is in it."""
    made.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{made.name}.new-", dir=made.parent))
    folder.chmod(0o755)
    try:
        yield folder
        if not made.exists():
            folder.rename(made)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _sources() -> Iterator[Path]:
    """apt's lines for the release and its backports, of the mirror that apt uses here."""
    fields = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian")
    told = subprocess.run(
        ["apt-get", "indextargets", *fields], check=True, capture_output=True, text=True
    ).stdout.split()
    if not told:
        raise RuntimeError("apt has no lists of a mirror of Debian: apt-get update")
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        for suite in (_RELEASE, f"{_RELEASE}-backports"):
            file.write(f"deb {told[0]} {suite} main contrib\n")
        file.flush()
        yield Path(file.name)


def _debian(packages: Sequence[str], sources: Path, tar: Path, options: Sequence[str]) -> None:
    """What apt installs of `packages`, into a tar; OpenZFS and all it needs come from backports."""
    with tempfile.NamedTemporaryFile("w", suffix=".pref") as pin:
        pin.write(_PIN.format(suite=f"{_RELEASE}-backports"))
        pin.flush()
        place = f'--setup-hook=install -D -m 644 {pin.name} "$1/etc/apt/preferences.d/zfs.pref"'
        _run(
            *("mmdebstrap", "--variant=apt", f"--include={','.join(packages)}", place),
            *(*options, _RELEASE, tar, sources),
        )


def _disk(content: Path, file: Path, *, spare_bytes: int) -> None:
    used = sum(one.lstat().st_blocks * 512 for one in content.rglob("*"))
    _run("truncate", "-s", str((used + used // 8 + spare_bytes) // 4096 * 4096), file)
    _run("mkfs.ext4", "-q", "-m", "0", "-d", content, file)


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr[-4000:]}")
