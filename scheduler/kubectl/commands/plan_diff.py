"""`plan --diff`: what would change, by node, in the manner of `kubectl diff`."""

from collections.abc import Iterator

from scheduler.kubectl import text
from scheduler.kubectl.output import Output
from scheduler.model.rest.common import PodView
from scheduler.model.rest.what_if import WhatIfAnswer

__all__ = ["show"]

PENDING = "(pending)"
_STYLES = {"-": "red", "+": "green"}


def show(out: Output, answer: WhatIfAnswer) -> None:
    """Print the changes; nothing if there are none."""
    places: dict[str, list[tuple[str, PodView]]] = {}
    for node, sign, pod in _changes(answer):
        places.setdefault(node, []).append((sign, pod))
    if not places:
        return
    size = max(len(text.pod_name(pod)) for changes in places.values() for _, pod in changes)
    out.line(f"--- now: {text.clean(answer.at)}", "bold")
    out.line("+++ with the objects applied", "bold")
    for node in sorted(places, key=lambda each: (each == PENDING, each)):
        out.line(f"@@ {text.clean(node)} @@", "cyan")
        for sign, pod in sorted(places[node], key=lambda each: each[0] == "+"):
            out.line(_line(out, sign, pod, size), _STYLES[sign])


def _changes(answer: WhatIfAnswer) -> Iterator[tuple[str, str, PodView]]:
    """Yield the place, the sign and the pod of each change."""
    removed = {(each.pod.uid, each.pod.name) for each in answer.displaced}
    for gone in answer.displaced:
        yield gone.from_node, "-", gone.pod
        replacement = gone.replacement
        if replacement is not None:
            yield replacement.node or PENDING, "+", replacement.pod
    for planned in answer.items:
        for victim in planned.victims:
            if (victim.pod.uid, victim.pod.name) not in removed:
                yield planned.node, "-", victim.pod
        yield planned.final_node or planned.node or PENDING, "+", planned.pod
    for other in answer.others:
        place = other.final_node or other.node
        if place:
            yield PENDING, "-", other.pod
        yield place or PENDING, "+", other.pod


def _line(out: Output, sign: str, pod: PodView, size: int) -> str:
    name = text.pod_name(pod).ljust(size)
    line = f"{sign} {name}  priority {pod.priority}"
    if not pod.hidden:
        line = f"{line}  {text.amounts(pod.requests)}"
    return line if out.width is None else line[: out.width]
