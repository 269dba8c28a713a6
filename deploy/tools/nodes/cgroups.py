"""The cgroups of nodes: a folder for each node in every cgroup hierarchy."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "hierarchies", "make", "names", "remove"]

ROOT: Final = Path("/sys/fs/cgroup")

#: Timeout of a removal: a cgroup is empty a moment after its last process has ended.
REMOVE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.1


def hierarchies() -> list[Path]:
    """Return the roots of the hierarchies: one with cgroup v2, one per controller with v1."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    found = [path for path in sorted(ROOT.iterdir()) if not path.is_symlink() and path.is_dir()]
    return found if {"memory", "pids"} <= {path.name for path in found} else []


def make(name: str) -> None:
    """Create a cgroup, which may be nested, in every hierarchy, with all CPUs and memory nodes."""
    for hierarchy in hierarchies():
        folder = hierarchy
        for part in Path(name).parts:
            parent, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            # With v1 a new cpuset is empty, and processes cannot join it.
            for file in ("cpuset.cpus", "cpuset.mems") if hierarchy.name == "cpuset" else ():
                (folder / file).write_text((parent / file).read_text())


def names(prefix: str) -> set[str]:
    """Return the names of the top-level cgroups with a prefix."""
    return {path.name for each in hierarchies() for path in each.glob(f"{prefix}*")}


def remove(name: str) -> None:
    """Remove a cgroup and all cgroups below it when their processes have ended.

    Raises:
        OSError: it still has processes.
    """
    deadline = time.monotonic() + REMOVE_SECONDS
    while left := [each / name for each in hierarchies() if (each / name).exists()]:
        for folder in left:
            for group in _deepest_first(folder):
                with contextlib.suppress(OSError):
                    group.rmdir()
        if all(not folder.exists() for folder in left):
            return
        if time.monotonic() > deadline:
            raise OSError(f"cgroups are still in use: {', '.join(map(str, left))}")
        time.sleep(PAUSE_SECONDS)


def _deepest_first(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):  # it was removed meanwhile
        for child in folder.iterdir():
            if child.is_dir():
                yield from _deepest_first(child)
    yield folder
