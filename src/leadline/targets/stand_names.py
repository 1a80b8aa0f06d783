"""What a stand is called: all that is made to put file systems on an RBD image of our own, each
thing of it named by one token, so that it is found again behind a kill -9."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline.targets.dataset import mount_folder

SCHEME = "shared:"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandNames:
    """Names of one stand; `image` is `leadline-RUN-TOKEN` in the Ceph pool `pool`."""

    pool: str
    image: str
    token: str

    @property
    def url(self) -> str:
        """How the journal calls it."""
        return f"{SCHEME}{self.pool}/{self.image}"

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.image}"

    @property
    def folder(self) -> Path:
        return mount_folder(self.token)

    @property
    def exposed(self) -> Path:
        """Where rbd-fuse is mounted."""
        return self.folder / "image"

    @property
    def file(self) -> Path:
        """The image as rbd-fuse shows it."""
        return self.exposed / self.image

    @property
    def socket(self) -> Path:
        """The admin socket of rbd-fuse; such a path has 107 bytes at most."""
        return self.folder / "rbd-fuse.asok"

    @property
    def ext4(self) -> Path:
        return self.folder / "ext4"

    @property
    def zpool(self) -> str:
        return f"leadline-{self.token}"

    @property
    def datasets(self) -> Path:
        """Where the datasets are mounted, each in a folder of it."""
        return self.folder / "zfs"

    @property
    def pid_file(self) -> Path:
        return self.folder / "zfs-fuse.pid"


def names_of(url: str, token: str) -> StandNames:
    """The stand that a journal tells of."""
    pool, _, image = url.removeprefix(SCHEME).partition("/")
    return StandNames(pool=pool, image=image, token=token)
