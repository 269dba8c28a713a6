"""`why POD`: where a pod is and why, who evicted it, what the nodes say, and what would help."""

from typing import Final
from urllib.parse import quote

from scheduler.kubectl import text, unqueued_pods
from scheduler.kubectl.client import Answer
from scheduler.kubectl.commands import candidates
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import PodArgument, Session, pod_argument
from scheduler.model import times
from scheduler.model.messages import without_preamble
from scheduler.model.rest.explanations import FoundPodsDocument, PlacementView, PodExplanation

__all__ = ["run"]

NOT_FOUND: Final = 404
#: How many of several pods are listed.
LISTED: Final = 20


async def run(session: Session) -> int:
    """Print why pods are where they are; return the exit code."""
    arguments = session.arguments
    target = pod_argument(arguments.pod, arguments.labels)
    if target.name and not target.kind:
        return await _one(session, target)
    namespace = None if target.uid else target.namespace or session.namespace()
    try:
        answer = await _found(session, target, namespace)
    except CommandError as error:
        # A pod may have a name that looks like a uid.
        if error.status != NOT_FOUND or not target.uid:
            raise
        return await _one(session, target)
    found = answer.document
    if len(found.items) == 1 and found.first is not None and arguments.nodes:
        pod = found.items[0].pod
        return await _one(session, PodArgument(name=pod.name, namespace=pod.namespace, uid=pod.uid))
    if not session.printed(answer):
        _several(session, found)
    return 0


async def _found(
    session: Session, target: PodArgument, namespace: str | None
) -> Answer[FoundPodsDocument]:
    owner = f"{target.kind}/{target.name}" if target.kind else None
    return await session.client.get(
        "/find",
        FoundPodsDocument,
        namespace=namespace,
        uid=target.uid,
        owner=owner,
        labelSelector=target.labels,
    )


async def _one(session: Session, target: PodArgument) -> int:
    """Print where the pod of a name is, and why; if it has a uid too, that one."""
    namespace, name = target.namespace or session.namespace(), target.name or target.uid
    nodes, uid = 1 if session.arguments.nodes else None, target.uid if target.name else None
    path = f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"
    try:
        answer = await session.client.get(path, PodExplanation, nodes=nodes, uid=uid or None)
    except CommandError as error:
        if error.status != NOT_FOUND:
            raise
        raise await _not_found(session, namespace, name, error) from error
    if not session.printed(answer):
        show(session.out, answer.document, wide=session.wide)
    return 0


async def _not_found(
    session: Session, namespace: str, name: str, error: CommandError
) -> CommandError:
    """Return the error for a pod that the scheduler does not know."""
    try:
        others = await session.client.get("/find", FoundPodsDocument, name=name)
        places = [each.pod.namespace for each in others.document.items]
    except CommandError:
        places = []
    if places:
        advice = f"a pod of that name is in namespace {places[0]}: add -n {places[0]}"
        return CommandError(f"pod {namespace}/{name} is not known", advice, NOT_FOUND)
    reason = await unqueued_pods.reason(session, namespace, name)
    if reason:
        problem = f"pod {namespace}/{name} is not in the queue: {reason}"
        return CommandError(problem, "", NOT_FOUND)
    return CommandError(
        str(error), f"look for it: kubectl get pod {name} -n {namespace} -o wide", NOT_FOUND
    )


def _several(session: Session, found: FoundPodsDocument) -> None:
    """Print the answer about several pods: one sentence, the table, and one of them in detail."""
    out, now = session.out, session.now()
    if len(found.items) == 1 and found.first is not None:
        show(out, found.first, wide=session.wide)
        return
    candidates.verdict(out, found.verdict, found.impact)
    out.line()
    shown = found.items if session.wide else found.items[:LISTED]
    rows = [
        [
            text.pod_name(each.pod),
            each.state,
            text.since(each.since, now) if each.since else "-",
            each.node or "-",
            str(each.pod.priority),
            text.amounts(each.pod.requests),
        ]
        for each in shown
    ]
    out.table(["POD", "STATE", "SINCE", "NODE", "PRIORITY", "REQUESTS"], rows, wide=session.wide)
    more = len(found.items) - len(shown) + found.remaining
    if more:
        out.line(f"and {text.count(more, 'pod')} more")
    if found.first is not None:
        out.line()
        show(out, found.first, wide=session.wide, one_of_many=True)


def show(out: Output, found: PodExplanation, *, wide: bool, one_of_many: bool = False) -> None:
    """Print an explanation: the answer first, and what it rests on."""
    if found.verdict and not one_of_many:
        candidates.verdict(out, found.verdict, found.impact)
        out.line()
    _head(out, found)
    waits = found.state == "waiting"
    if not waits:
        _evictions(out, found)
    if found.node:
        out.line()
        out.line(f"It fits on node {text.clean(found.node)} now.", "green")
    message = found.message.removesuffix(f" preemption: {found.preemption_message}")
    if message and found.state in {"waiting", "left"}:
        out.line()
        out.paragraph(message)
    if found.verdicts:
        out.line()
        candidates.verdicts(out, found.verdicts, wide=wide)
    now = times.parse(found.now) or 0.0
    candidates.devices(out, found.devices, now, "Devices that it waits for:")
    _preemption(out, found, wide=wide)
    _advice(out, found)
    if waits:  # what led to it comes after why it waits
        _evictions(out, found, "Evicted before:")
    _history(out, found)
    _nodes(out, found, wide=wide)


def _advice(out: Output, found: PodExplanation) -> None:
    if found.policies:
        out.line()
        out.line("Policies forbid:", "bold")
        candidates.vetoes(out, found.policies)
    if found.suggestions:
        out.line()
        out.line("What would help:", "bold")
        for each in found.suggestions:
            out.paragraph(each, "  - ")


def _head(out: Output, found: PodExplanation) -> None:
    pending, pod = found.pending, found.pending.pod
    now = times.parse(found.now) or 0.0
    state = f"is {text.clean(pending.phase)}" if found.state == "waiting" else _HEADS[found.state]
    out.line(f"Pod {text.pod_name(pod)} {state}.", "bold")
    rows = {
        **_times(found, now),
        **({} if found.placement is None else _placement(found.placement, now)),
        "priority": str(pod.priority),
        "requests": text.amounts(pod.requests) if pod.requests else "",
        "owner": text.owner_name(pod) if pod.owner else "",
        "nominated": text.clean(pending.nominated_node),
        "scheduler": text.clean(pending.scheduler_name) if found.state == "foreign" else "",
    }
    if pending.backoff_until:
        rows["next"] = f"not before {text.clean(pending.backoff_until)}"
    for name, value in rows.items():
        if value:
            out.line(f"  {name:<10} {value}")


def _times(found: PodExplanation, now: float) -> dict[str, str]:
    pending = found.pending
    attempts = text.count(pending.attempts, "attempt")
    if found.left_at:
        waited = text.since(pending.since, times.parse(found.left_at) or now)
        left = f"{text.since(found.left_at, now)} ago"
        return {"left": left, "waited": f"{waited}, {attempts}"}
    if found.state == "waiting":
        return {"waits": f"{text.since(pending.since, now)}, {attempts}"}
    return {}


def _placement(placement: PlacementView, now: float) -> dict[str, str]:
    rows = {"node": text.clean(placement.node)}
    if placement.since:
        rows["runs"] = text.since(placement.since, now)
    if placement.budgets:
        names = ", ".join(map(text.clean, placement.budgets))
        rows["budget"] = (
            f"{names}, allows {text.count(placement.allowed_disruptions, 'disruption')}"
        )
    return rows


_HEADS: Final = {
    "running": "is on a node",
    "foreign": "is on a node",
    "evicted": "was evicted",
    "left": "waits no longer",
}


def _evictions(out: Output, found: PodExplanation, title: str = "") -> None:
    """Print the evictions of pods of this name, and of the pod that this one replaces."""
    replaced = [] if found.replaces is None else [found.replaces]
    all_of = [*found.evictions, *replaced]
    if not all_of:
        return
    now = times.parse(found.now) or 0.0
    rows = [
        [
            text.since(each.victim.evicted_at, now) if each.victim.evicted_at else "-",
            text.pod_name(each.victim.pod),
            each.victim.state,
            each.preemption.node,
            text.pod_name(each.preemption.preemptor),
            str(each.preemption.preemptor.priority),
            candidates.fate(each.victim.replacement),
        ]
        for each in all_of
    ]
    head = ["AGE", "EVICTED", "STATE", "NODE", "FOR", "PRIORITY", "REPLACED BY"]
    out.line()
    if title:
        out.line(title, "bold")
    out.table(head, rows)
    preemption = all_of[0].preemption
    if len(preemption.candidates) > 1:
        out.line()
        rule = candidates.meaning(preemption)
        out.line(f"Node {text.clean(preemption.node)} was chosen by: {rule}")
        candidates.compared(out, preemption, wide=False)
    out.line()
    out.line(f"kubectl preemptive preemptions {text.clean(preemption.id)} shows that preemption.")


def _preemption(out: Output, found: PodExplanation, *, wide: bool) -> None:
    possible = found.preemption
    if possible is None:
        if found.preemption_message:
            out.line()
            out.line("No preemption helps:", "bold")
            out.paragraph(found.preemption_message, "  ")
        return
    number = len(possible.victims) + possible.hidden_victims
    node = text.clean(possible.node)
    out.line()
    out.line(f"A preemption would evict {text.count(number, 'pod')} on node {node}:", "yellow")
    candidates.victims(out, possible.victims, possible.hidden_victims, wide=wide)
    candidates.devices(out, possible.devices, 0.0, "Devices for the pod:")
    if len(possible.candidates) > 1:
        out.line()
        out.line(f"Node {node} was chosen by: {candidates.meaning(possible)}")
        candidates.compared(out, possible, wide=wide)


def _history(out: Output, found: PodExplanation) -> None:
    if not found.history:
        return
    now = times.parse(found.now) or 0.0
    rows = [
        [
            text.since(each.at, now),
            each.decision + (f" (x{each.repeated + 1})" if each.repeated else ""),
            each.node or "-",
            without_preamble(each.message) or "-",
        ]
        for each in found.history
    ]
    out.line()
    out.table(["AGE", "ATTEMPT", "NODE", "MESSAGE"], rows)


def _nodes(out: Output, found: PodExplanation, *, wide: bool) -> None:
    if not found.nodes:
        return
    head = ["NODE", "PLUGIN", "VERDICT"]
    rows = [
        [each.name, each.plugin or "-", "; ".join((each.rejection or "fits", *each.vetoes))]
        for each in found.nodes
    ]
    if wide:
        head.append("SCORE")
        for row, each in zip(rows, found.nodes, strict=True):
            row.append(str(each.total) if each.scores else "-")
    out.line()
    out.table(head, rows, wide=wide)
