"""Rewrites archives so that equal content gives equal bytes.

Build tools write the time of the build, the user and the file mode of the machine into the archives
that they make. Here entries are sorted by name and get one time, the owner 0 and the mode 0644 or
0755; the content stays as it is.
"""

import gzip
import io
import stat
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Final

__all__ = ["normalize_tar_gz", "normalize_wheel"]

#: ZIP cannot hold an earlier time: 1980-01-01.
_ZIP_EPOCH: Final = 315_532_800
_EXECUTABLE: Final = 0o755
_PLAIN: Final = 0o644


def normalize_tar_gz(path: Path, epoch: int) -> None:
    """Rewrite a .tar.gz or .tgz file in place.

    Args:
        path: The file.
        epoch: The time of all entries, in seconds since 1970.
    """
    plain = io.BytesIO()
    with (
        tarfile.open(path, "r:gz") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(member)
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.linkname, clean.size = member.type, member.linkname, member.size
            clean.mtime = epoch
            clean.mode = _mode(member.mode, folder=member.isdir())
            target.addfile(clean, content)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(plain.getvalue())


def normalize_wheel(path: Path, epoch: int) -> None:
    """Rewrite a wheel in place; its RECORD stays last, as the format recommends.

    Args:
        path: The file.
        epoch: The time of all entries, in seconds since 1970; not before 1980.
    """
    when = time.gmtime(max(epoch, _ZIP_EPOCH))[:6]
    with zipfile.ZipFile(path) as source:
        entries = [(entry, source.read(entry)) for entry in source.infolist()]
    entries.sort(key=lambda entry: (".dist-info/" in entry[0].filename, entry[0].filename))
    entries.sort(key=lambda entry: entry[0].filename.endswith(".dist-info/RECORD"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for entry, content in entries:
            clean = zipfile.ZipInfo(entry.filename, when)
            clean.compress_type = zipfile.ZIP_DEFLATED
            clean.create_system = 3  # Unix, so that readers look at the mode
            mode = _mode(entry.external_attr >> 16, folder=entry.is_dir())
            clean.external_attr = (stat.S_IFREG | mode) << 16
            target.writestr(clean, content)


def _mode(mode: int, *, folder: bool) -> int:
    return _EXECUTABLE if folder or mode & stat.S_IXUSR else _PLAIN
