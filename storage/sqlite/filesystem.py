"""What lies at a path: which file, and on which filesystem, for SQLite's write-ahead log needs memory shared by all."""

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_SHARED = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smbfs", "smb2", "smb3", "ncpfs", "9p", "afs", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ocfs2", "gfs2", "pvfs2", "orangefs"),
        *("vboxsf", "vmhgfs", "prl_fs", "fuse.vmhgfs-fuse"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs2"),
    }
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells the file at `path` from any other that exists, None where there is none.

    Only asked of the directory: opening and closing a database file would drop SQLite's locks on it.

    Raises:
        OSError: the system does not say, which tells nothing about the file.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - asked for every operation on a location; a Path costs as much again
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def is_shared(path: str, mounts: Path | None = None) -> bool:
    """Tell whether a network or shared filesystem holds `path`; False where the system does not say."""
    try:
        table = (mounts or _MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return filesystem_type(os.path.realpath(path), table) in _SHARED


def filesystem_type(path: str, table: str) -> str:
    """Return the type of the filesystem that holds an absolute path, by the text of /proc/self/mounts."""
    deepest, found = -1, ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, mount point, type
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[1]).rstrip("/")
        # The last of several mounts on one point is the one that is seen.
        if (path == point or path.startswith(point + "/")) and len(point) >= deepest:
            deepest, found = len(point), fields[2]
    return found
