"""How much memory the processes that answer what-ifs may have.

All of them have one budget. On cgroup v2 the kubelet has the kernel end every process of a
container that reaches its memory limit (`memory.oom.group`), so a what-if that is too large would
end the scheduler as well, whatever its process has in `oom_score_adj`.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["LEAST_BYTES", "budget", "held", "share"]

#: The least with which a process can answer a small what-if.
LEAST_BYTES: Final = 96 << 20
_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_PROCESSES: Final = Path("/proc")
#: Of version 2 and 1: the folder below the root, the limit, what is used, and what of it is files
#: that the kernel drops when it needs memory. Kubelets count in the same way.
_VERSIONS: Final = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def held(pid: int) -> int:
    """Return the memory in bytes that a process shares with no other; 0 if it has ended."""
    try:
        fields = (_PROCESSES / str(pid) / "statm").read_text(encoding="ascii").split()
        pages = int(fields[1]) - int(fields[2])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def budget(held_now: int, root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """Return the bytes that all processes for what-ifs may have together; `None` without a limit.

    It is three quarters of what the container has left beside them: the scheduler may grow while a
    what-if is answered.

    Args:
        held_now: What these processes have now.
        root: Where the control groups are mounted.
        own: The file that names those of this process.
    """
    found = [limit - max(0, used - held_now) for limit, used in _limits(root, own)]
    return max(0, min(found)) * 3 // 4 if found else None


def share(total: int, at_once: int, taken: int) -> int:
    """Return the bytes that one more process may have.

    Args:
        total: The budget.
        at_once: How many what-ifs are answered at a time.
        taken: What other processes have, or may take.
    """
    return min(max(total // at_once, LEAST_BYTES), total - taken)


def _limits(root: Path, own: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group that limits this process."""
    for (below, limit, current, files), group in zip(_VERSIONS, _groups(own), strict=True):
        top = root / below
        # In a container its own group is the root; elsewhere each group above limits as well.
        for folder in (top, *(top / part for part in (group, *group.parents) if part.name)):
            with contextlib.suppress(OSError, ValueError):  # also "max": there is no limit
                most = int((folder / limit).read_text(encoding="ascii"))
                used = int((folder / current).read_text(encoding="ascii"))
                yield most, used - _files(folder, files)


def _groups(own: Path) -> tuple[Path, Path]:
    """Return the control groups of this process in version 2 and in version 1, from the root."""
    found = [Path(), Path()]
    with contextlib.suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                found[bool(controllers)] = Path(path.lstrip("/"))
    return found[0], found[1]


def _files(folder: Path, name: str) -> int:
    for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
        field, _, value = line.partition(" ")
        if field == name:
            return int(value)
    return 0
