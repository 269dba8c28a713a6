"""Progress as lines of text for output without a terminal."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler.observe.logs import escape
from scheduler.terminal.sections import Palette
from scheduler.terminal.values import AttemptResult, AttemptView, ViewSnapshot

__all__ = ["lines"]


def lines(before: ViewSnapshot, after: ViewSnapshot) -> list[str]:
    """Return a line for each change between two snapshots, in order of time.

    An attempt with the same result as an earlier one of the same pod is skipped.
    """
    return [f"{at:7.2f} s  {escape.printable(text)}" for at, text in sorted(_news(before, after))]


def _news(before: ViewSnapshot, after: ViewSnapshot) -> Iterator[tuple[float, str]]:
    name = Palette(after).name
    known = {replace(each, at=0.0) for each in before.attempts}
    for attempt in after.attempts:
        if replace(attempt, at=0.0) not in known:
            yield attempt.at, _attempt(attempt, name)
    left = {each.pod for each in before.victims if each.gone_at is not None}
    for victim in after.victims:
        if victim.gone_at is not None and victim.pod not in left:
            seconds = victim.gone_at - victim.evicted_at
            yield (
                victim.gone_at,
                f"gone      {name(victim.pod)} from {victim.node} after {seconds:.2f} s",
            )


def _attempt(attempt: AttemptView, name: Callable[[str], str]) -> str:
    pod = name(attempt.pod)
    match attempt.result:
        case AttemptResult.PLACED:
            return f"placed    {pod} on {attempt.node}"
        case AttemptResult.PREEMPTING:
            victims = ", ".join(map(name, attempt.victims))
            return f"preempts  {pod} on {attempt.node}, evicting {victims}"
        case AttemptResult.UNSCHEDULABLE:
            return f"waits     {pod}: {attempt.message}"
        case AttemptResult.FAILED:
            return f"failed    {pod}: {attempt.message}"
