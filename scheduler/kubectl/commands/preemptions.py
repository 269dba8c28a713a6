"""`preemptions`: those under way and past; with a name, one of them and why there."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from scheduler.kubectl import text
from scheduler.kubectl.commands import candidates
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionsDocument, PreemptionView

__all__ = ["run"]

_HEAD: Final = ["AGE", "PREEMPTOR", "NODE", "VICTIMS", "STATE"]
_NOT_COMPARED: Final = (
    "No comparison of candidates was recorded: more than 100 preemptions per second were planned at"
    " that time, or another replica planned this one."
)
_WIDE: Final = [*_HEAD, "BUDGETS", "CANDIDATES", "CRITERION", "COST", "ID"]


async def run(session: Session) -> int:
    """Print preemptions; return the exit code."""
    arguments = session.arguments
    if arguments.watch:
        await _watch(session)
    state = "active" if arguments.active else "past" if arguments.past else None
    answer = await session.client.pages("/preemptions", PreemptionsDocument, state=state)
    found: PreemptionsDocument = answer.document
    asked = [_asked(session, each) for each in found.items]
    shown = list(itertools.compress(found.items, asked))
    if arguments.name and not shown:
        raise CommandError(
            f"there is no preemption of {arguments.name}, as preemptor or as victim",
            "kubectl preemptive preemptions -o wide shows the names and IDs",
        )
    items = list(itertools.compress(answer.content.get("items", ()), asked))
    if session.printed(replace(answer, content={**answer.content, "items": items})):
        return 0
    if arguments.name:
        _details(session, shown)
    else:
        _table(session, shown, found.hidden)
    return 0


def _asked(session: Session, each: PreemptionView) -> bool:
    """Return whether a preemption has the given name, and concerns the given namespace."""
    if session.arguments.name and not _named(each, session.arguments.name):
        return False
    namespace = "" if session.arguments.all_namespaces else session.arguments.namespace
    pods = (each.preemptor, *(victim.pod for victim in each.victims))
    return not namespace or any(pod.namespace == namespace for pod in pods)


def _named(each: PreemptionView, name: str) -> bool:
    pods = (each.preemptor, *(victim.pod for victim in each.victims))
    known = {each.id, *(word for pod in pods for word in (pod.name, pod.uid, _key(pod)))}
    return bool(name) and name in known


def _key(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def _table(session: Session, shown: Sequence[PreemptionView], hidden: int) -> None:
    out = session.out
    if shown:
        out.table(_WIDE if session.wide else _HEAD, _rows(session, shown), wide=session.wide)
    elif not hidden:
        out.line(f"No preemptions {_filter(session)}.")
    if hidden:
        out.line(f"and {text.count(hidden, 'preemption')} of pods that you may not see")


def _filter(session: Session) -> str:
    """Return in words which preemptions were asked for."""
    arguments = session.arguments
    words = "are under way" if arguments.active else "within the last 24 hours"
    if arguments.past:
        words = f"that ended {words}"
    if arguments.namespace and not arguments.all_namespaces:
        words += f" in namespace {text.clean(arguments.namespace)}"
    return words


def _rows(session: Session, shown: Iterable[PreemptionView]) -> list[list[str]]:
    rows = []
    for each in shown:
        row = [
            text.since(each.decided_at, session.now()),
            text.pod_name(each.preemptor),
            each.node,
            str(len(each.victims) + each.hidden_victims),
            _state(each),
        ]
        if session.wide:
            chosen_of = str(each.candidates_total)
            row += [
                str(each.pdb_violations),
                chosen_of,
                each.criterion or "-",
                text.spent(each.cost) or "-",
                each.id,
            ]
        rows.append(row)
    return rows


def _state(each: PreemptionView) -> str:
    wasted = sum(victim.wasted for victim in each.victims)
    state = each.outcome or each.phase
    return f"{state}, {wasted} wasted" if wasted else state


def _details(session: Session, found: Sequence[PreemptionView]) -> None:
    for number, each in enumerate(found):
        if number:
            session.out.line()
        _detail(session.out, each, session.now(), wide=session.wide)


def _detail(out: Output, each: PreemptionView, now: float, *, wide: bool) -> None:
    node = text.clean(each.node)
    candidates.verdict(out, each.verdict or f"{text.pod_name(each.preemptor)}: {node}", each.impact)
    out.line()
    rows = {
        "decided": f"{text.since(each.decided_at, now)} ago",
        "state": text.clean(_state(each)),
        "problem": text.clean(each.problem),
        "cost": text.spent(each.cost),
        "id": text.clean(each.id),
    }
    for name, value in rows.items():
        if value:
            out.line(f"  {name:<10} {value}")
    out.line()
    candidates.victims(out, each.victims, each.hidden_victims, wide=wide)
    for victim in each.victims:
        if victim.replacement is not None:
            fate = candidates.fate(victim.replacement)
            out.paragraph(f"{text.pod_name(victim.pod)} was replaced by {fate}", "  ")
    for veto in each.would_refuse:
        out.paragraph(f"{veto.policy} would have refused: {veto.message}", "  ")
    candidates.devices(out, each.devices, now, f"Devices for {text.pod_name(each.preemptor)}:")
    if each.candidates:
        meaning = candidates.meaning(each) or "it was the only one"
        out.line()
        out.line(f"Node {node} was chosen by: {meaning}")
        candidates.compared(out, each, wide=wide)
    else:
        out.line()
        out.paragraph(_NOT_COMPARED)


async def _watch(session: Session) -> None:
    """Print the table and then each change, until the user ends it."""
    known: dict[str, PreemptionView] = {}
    async for update in session.client.follow("/preemptions", PreemptionsDocument):
        asked = [each for each in update.document.items if _asked(session, each)]
        changed = [each for each in asked if known.get(each.id) != each]
        first = not known
        known |= {each.id: each for each in changed}
        _print_changes(session, changed, head=first)


def _print_changes(session: Session, changed: Sequence[PreemptionView], *, head: bool) -> None:
    out, form = session.out, session.arguments.output
    if form in {"json", "yaml"}:
        for each in changed:
            out.document(msgspec.to_builtins(each), form)
    elif changed:
        width = None if session.wide else out.width
        names = _WIDE if session.wide else _HEAD
        lines = text.table(names, _rows(session, changed), width)
        for line in lines if head else lines[1:]:
            out.line(line)
    out.flush()
