"""`why POD`: why a pod waits, what the nodes say, and what would help."""

from typing import Final
from urllib.parse import quote

from scheduler.kubectl import text, unqueued_pods
from scheduler.kubectl.commands import candidates
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session, name_of_pod
from scheduler.model import times
from scheduler.model.messages import without_preamble
from scheduler.model.rest.cluster import PendingPodsDocument
from scheduler.model.rest.explanations import PodExplanation

__all__ = ["run"]

NOT_FOUND: Final = 404
#: Among so many pods the name is searched in other namespaces.
SEARCHED: Final = 5_000


async def run(session: Session) -> int:
    """Print why a pod waits; return the exit code."""
    namespace, name = session.namespace(), name_of_pod(session.arguments.pod)
    path = f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"
    try:
        answer = await session.client.get(
            path, PodExplanation, nodes=1 if session.arguments.nodes else None
        )
    except CommandError as error:
        if error.status != NOT_FOUND:
            raise
        raise await _not_found(session, namespace, name) from error
    if not session.printed(answer):
        show(session.out, answer.document, wide=session.wide)
    return 0


async def _not_found(session: Session, namespace: str, name: str) -> CommandError:
    """Return the error for a pod that is not in the queue."""
    problem = f"pod {namespace}/{name} is not in the queue"
    waiting = await session.client.get("/pods", PendingPodsDocument, limit=SEARCHED)
    places = [each.pod.namespace for each in waiting.document.items if each.pod.name == name]
    if places:
        advice = f"a pod of that name waits in namespace {places[0]}: add -n {places[0]}"
        return CommandError(problem, advice, NOT_FOUND)
    reason = await unqueued_pods.reason(session, namespace, name)
    if reason:
        return CommandError(f"{problem}: {reason}", "", NOT_FOUND)
    return CommandError(
        problem,
        "possible reasons: it is already running, it does not exist, it belongs to another"
        " scheduler (spec.schedulerName), or you have no permission to get it:\n"
        f"  kubectl get pod {name} -n {namespace} -o wide",
        NOT_FOUND,
    )


def show(out: Output, found: PodExplanation, *, wide: bool) -> None:
    """Print an explanation."""
    _head(out, found)
    if found.node:
        out.line()
        out.line(f"It fits on node {text.clean(found.node)} now.", "green")
    message = found.message.removesuffix(f" preemption: {found.preemption_message}")
    if message:
        out.line()
        out.paragraph(message)
    if found.verdicts:
        out.line()
        candidates.verdicts(out, found.verdicts, wide=wide)
    _preemption(out, found, wide=wide)
    if found.policies:
        out.line()
        out.line("Policies forbid:", "bold")
        candidates.vetoes(out, found.policies)
    if found.suggestions:
        out.line()
        out.line("What would help:", "bold")
        for each in found.suggestions:
            out.paragraph(each, "  - ")
    _history(out, found)
    _nodes(out, found, wide=wide)


def _head(out: Output, found: PodExplanation) -> None:
    pending, pod = found.pending, found.pending.pod
    now = times.parse(found.now) or 0.0
    attempts = text.count(pending.attempts, "attempt")
    if found.left_at:
        out.line(f"Pod {text.pod_name(pod)} waits no longer.", "bold")
        waited = text.since(pending.since, times.parse(found.left_at) or now)
        rows = {
            "left": f"{text.since(found.left_at, now)} ago",
            "waited": f"{waited}, {attempts}",
            "priority": str(pod.priority),
        }
    else:
        out.line(f"Pod {text.pod_name(pod)} is {text.clean(pending.phase)}.", "bold")
        rows = {
            "waits": f"{text.since(pending.since, now)}, {attempts}",
            "priority": str(pod.priority),
            "requests": text.amounts(pod.requests),
            "owner": text.owner_name(pod),
            "nominated": text.clean(pending.nominated_node),
        }
    if pending.backoff_until:
        rows["next"] = f"not before {text.clean(pending.backoff_until)}"
    for name, value in rows.items():
        if value:
            out.line(f"  {name:<10} {value}")


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
