"""What the user of the live view has chosen: a row, a filter, a page; and what each key changes.

It knows no terminal and asks nothing: `press` takes a key, and returns what has to be done.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from rich.text import Text

from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionView

__all__ = ["Browsing", "Row", "Wish", "key_of", "keys", "press"]

Row: TypeAlias = PendingPodView | PreemptionView
#: Quit, ask for the page of the selected row, or read the lists again.
Wish: TypeAlias = Literal["", "quit", "open", "read"]

HELP: Final = """\
j k ↓ ↑    select the next or previous row; on a page, scroll
Home End   select the first or last row
Enter      why the selected pod waits; of a preemption, its details
p          select among preemptions, or among waiting pods again
/          filter waiting pods and preemptions by words
n          show one namespace
Esc        leave a page, or end the filter and the namespace
q          quit"""
#: Keys of which terminals send several characters. Those of an unknown key do nothing.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_NAMES: Final = {
    "\x1b[A": "previous", "\x1bOA": "previous", "\x1b[B": "next", "\x1bOB": "next",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b[5~": "up", "\x1b[6~": "down",
    "\x1b": "esc", "\r": "enter", "\n": "enter", "\x7f": "erase", "\x08": "erase",
    "\x03": "quit", "\x04": "quit",
}  # fmt: skip
_FAR: Final = 10**6
_STEPS: Final = {
    "j": 1, "next": 1, "k": -1, "previous": -1, "down": 10, " ": 10, "up": -10,
    "home": -_FAR, "end": _FAR,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Browsing:
    """The choices, and what they leave of the lists."""

    #: Whether rows are preemptions; otherwise they are waiting pods.
    preemptions: bool = False
    #: The key of the selected row, and its place for when it is gone; no key for none.
    selected: str = ""
    place: int = 0
    filter: str = ""
    namespace: str = ""
    #: Which of the two is being typed.
    typing: Literal["", "filter", "namespace"] = ""
    #: A page that covers the lists, and its first line that is shown; no lines for none.
    page: Sequence[Text] = ()
    top: int = 0

    @property
    def narrowed(self) -> bool:
        """Whether rows are left out."""
        return bool(self.filter or self.namespace)

    @property
    def hint(self) -> str:
        """What keys do now, in a few words."""
        if self.typing:
            return "Enter done  Esc clear"
        return "Esc back  q quit" if self.page else "? help  q quit"

    def pods(self, items: Iterable[PendingPodView]) -> list[PendingPodView]:
        """Return the waiting pods that match."""
        return [each for each in items if self._matches((each.pod,), each.phase, each.message)]

    def past(self, items: Iterable[PreemptionView]) -> list[PreemptionView]:
        """Return the preemptions that match by the preemptor or by a victim."""
        return [
            each
            for each in items
            if self._matches(
                (each.preemptor, *(victim.pod for victim in each.victims)),
                each.outcome or each.phase,
                each.node,
            )
        ]

    def _matches(self, pods: Sequence[PodView], *texts: str) -> bool:
        if self.namespace and not any(pod.namespace == self.namespace for pod in pods):
            return False
        text = " ".join((*(f"{pod.namespace}/{pod.name}" for pod in pods), *texts)).lower()
        return all(word in text for word in self.filter.lower().split())

    def line(self) -> str:
        """Return what the choices are, for a line of the view; empty if there is none."""
        given = {"filter": self.filter, "namespace": self.namespace}
        parts = [
            f"{name}: {value}{'▏' if name == self.typing else ''}"
            for name, value in given.items()
            if value or name == self.typing
        ]
        return "  ".join(parts)


def key_of(row: Row) -> str:
    """Return what stays the same of a row; empty where the caller may not see the pod."""
    if isinstance(row, PreemptionView):
        return row.id
    return "" if row.pod.hidden else f"{row.pod.namespace}/{row.pod.name}"


def keys(text: str) -> list[str]:
    """Return the keys that a terminal has sent: names, or characters."""
    return [_NAMES.get(each, each) for each in _SEQUENCE.findall(text)]


def press(browsing: Browsing, key: str, rows: Sequence[Row]) -> tuple[Browsing, Wish]:
    """Return the choices after a key, and what has to be done.

    Args:
        browsing: The choices before.
        key: One of `keys`.
        rows: Those of the list that keys select in, as they are shown.
    """
    if key == "quit" or (key.lower() == "q" and not browsing.typing):
        return browsing, "quit"
    if browsing.typing:
        return _typed(browsing, key), "read" if key in {"enter", "esc"} else ""
    if browsing.page:
        return _paged(browsing, key), ""
    if key in _STEPS:
        return _moved(browsing, _STEPS[key], rows), ""
    if key == "enter":
        return browsing, "open" if browsing.selected in filter(None, map(key_of, rows)) else ""
    return replace(browsing, **_changes(browsing).get(key, {})), "read" if key == "esc" else ""


def _changes(browsing: Browsing) -> Mapping[str, Mapping[str, Any]]:
    """Return what each other key changes."""
    return {
        "esc": {"filter": "", "namespace": "", "selected": ""},
        "p": {"preemptions": not browsing.preemptions, "selected": "", "place": 0},
        "?": {"page": [Text(line) for line in HELP.splitlines()], "top": 0},
        "/": {"typing": "filter"},
        "n": {"typing": "namespace"},
    }


def _typed(browsing: Browsing, key: str) -> Browsing:
    value = browsing.filter if browsing.typing == "filter" else browsing.namespace
    if key == "esc":
        value = ""
    elif key == "erase":
        value = value[:-1]
    elif len(key) == 1 and key.isprintable():
        value += key
    typing = "" if key in {"enter", "esc"} else browsing.typing
    if browsing.typing == "filter":
        return replace(browsing, filter=value, typing=typing)
    return replace(browsing, namespace=value.strip(), typing=typing)


def _paged(browsing: Browsing, key: str) -> Browsing:
    if key in _STEPS:
        last = len(browsing.page) - 1
        return replace(browsing, top=min(last, max(0, browsing.top + _STEPS[key])))
    return replace(browsing, page=(), top=0) if key in {"esc", "enter", "?"} else browsing


def _moved(browsing: Browsing, step: int, rows: Sequence[Row]) -> Browsing:
    found = [key_of(row) for row in rows]
    if not any(found):
        return browsing
    if browsing.selected in found:
        place = found.index(browsing.selected) + step
    else:
        place = browsing.place if abs(step) < _FAR else step
    place = min(len(found) - 1, max(0, place))
    return replace(browsing, selected=found[place], place=place)
