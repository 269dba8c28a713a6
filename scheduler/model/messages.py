"""Parts of messages that several packages write or shorten."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["age", "amount", "count", "joined", "short_name", "spent", "without_preamble"]

_PREAMBLE: Final = re.compile(r"^0/[0-9]+ nodes are available: ")
#: What the ReplicaSet of a Deployment, and then the pod, add to a name. The first says the least.
#: Source: apimachinery v0.36.3 util/rand, which uses no other characters.
_HASH: Final = re.compile(
    r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}-(?=[bcdfghjklmnpqrstvwxz2456789]{5}$)"
)
#: Of what work was lost, how much of it is one hour, and the unit.
_LOST: Final = (
    ("cpu", 3_600_000, "core-h"),
    ("memory", 3_600 * 2**30, "GiB-h"),
    ("pods", 3_600, "pod-h"),
)
#: Units of memory, the largest first.
_BINARY: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


@dataclass(frozen=True, slots=True)
class _Limit:
    below: float
    units: tuple[tuple[str, int], ...]


_SECOND, _MINUTE, _HOUR, _DAY, _YEAR = (
    ("s", 1),
    ("m", 60),
    ("h", 3_600),
    ("d", 86_400),
    ("y", 31_536_000),
)
#: Source: apimachinery v0.36.3 util/duration.HumanDuration.
_AGES: Final = (
    _Limit(120, (_SECOND,)),
    _Limit(600, (_MINUTE, _SECOND)),
    _Limit(3 * 3_600, (_MINUTE,)),
    _Limit(8 * 3_600, (_HOUR, _MINUTE)),
    _Limit(48 * 3_600, (_HOUR,)),
    _Limit(8 * 86_400, (_DAY, _HOUR)),
    _Limit(2 * 31_536_000, (_DAY,)),
    _Limit(8 * 31_536_000, (_YEAR, _DAY)),
    _Limit(float("inf"), (_YEAR,)),
)


def count(number: int, word: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def short_name(name: str, size: int) -> str:
    """Return `NAMESPACE/NAME` or a name in at most `size` characters.

    It keeps its end, where names of generated pods differ.
    """
    if len(name) <= size:
        return name
    space, slash, own = name.rpartition("/")
    own = _HASH.sub("-…-", own)
    if len(space + slash + own) <= size:
        return space + slash + own
    if slash and len(own) + 6 <= size:
        return f"{space[: size - len(own) - 2]}…/{own}"
    return f"{name[: size - 1 - size // 3]}…{name[len(name) - size // 3 :]}"


def without_preamble(message: str) -> str:
    """Return a message of kube-scheduler from its first reason on, as `12 Insufficient cpu.`."""
    return _PREAMBLE.sub("", message)


def age(seconds: float) -> str:
    """Return a duration as kubectl shows ages: `15s`, `2m5s`, `3h20m`, `5d`."""
    rest = max(0, int(seconds))
    units = next(each.units for each in _AGES if rest < each.below)
    parts: list[str] = []
    for unit, size in units:
        value, rest = divmod(rest, size)
        if value or not parts:
            parts.append(f"{value}{unit}")
    return "".join(parts)


def amount(resource: str, value: float) -> str:
    """Return an amount of a resource, as in a manifest."""
    if resource == "cpu":
        return f"{value / 1000:g}" if value % 1000 == 0 else f"{value:g}m"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for unit, size in _BINARY:
            if value >= size:
                return f"{value / size:.4g}{unit}"
    return f"{value:g}"


def spent(cost: Mapping[str, float]) -> str:
    """Return what work was lost: `0.38 core-h, 1.1 GiB-h, 0.75 pod-h`; empty if it is nothing.

    Args:
        cost: Amounts times seconds: of `pods`, of `cpu` in milli-units, and of `memory` in bytes.
    """
    parts = ((cost.get(name, 0.0) / size, unit) for name, size, unit in _LOST)
    return ", ".join(f"{_rounded(hours)} {unit}" for hours, unit in parts if hours)


def _rounded(hours: float) -> str:
    """Return a number with two digits, never as a power of ten."""
    return (
        f"{hours:.0f}" if hours >= 100 else f"{float(f'{hours:.2g}'):.10f}".rstrip("0").rstrip(".")
    )


def joined(parts: Sequence[str]) -> str:
    """Return words as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = parts or ("",)
    return f"{', '.join(first)} and {last}" if first else last
