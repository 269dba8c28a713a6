"""Unpacks archives in the way that all Python versions know."""

import tarfile
from pathlib import Path

__all__ = ["unpack"]


def unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack a tar archive into a folder; return the names in it."""
    with tarfile.open(archive) as content:
        # `extractall` has an argument for it from Python 3.11.4 on, which warns without one.
        content.extraction_filter = getattr(tarfile, "data_filter", None)
        content.extractall(folder)
        return content.getnames()
