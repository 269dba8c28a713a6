"""Sentences for people that answer what a document is about: the first line of every answer.

They are made of documents that are already limited to what their reader may see. They use no words
of kube-scheduler; its message is in the document as well. Moments in them are as in RFC 3339:
a client can show them in the time zone of its reader.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.model import times
from scheduler.model.messages import age, amount, count, joined
from scheduler.model.rest.common import Impact, PodView
from scheduler.model.rest.explanations import PodEviction, PodExplanation, RejectionGroup
from scheduler.model.rest.preemptions import PreemptionDevices, PreemptionView, VictimView
from scheduler.model.times import Seconds

__all__ = [
    "GOING",
    "NEITHER",
    "NOTHING_LOWER",
    "STILL_NOT",
    "named",
    "of_pod",
    "of_preemption",
    "of_waiting",
]

UNSEEN: Final = "a pod that you may not see"
#: How many reasons of nodes, and how many budgets, one sentence names.
_NAMED: Final = 3
#: Parts of reasons, and what they mean for one node and for several.
_MEANINGS: Final = (
    ("Too many pods", "has no room for one more pod", "have no room for one more pod"),
    ("taint", "has a taint that it does not tolerate", "have taints that it does not tolerate"),
    ("unschedulable", "is cordoned", "are cordoned"),
    ("node affinity/selector", "is not of the kind it asks for", "are not of the kind it asks for"),
    ("free ports", "has its host port in use", "have its host port in use"),
    ("topology spread", "would spread its group unevenly", "would spread its group unevenly"),
    ("anti-affinity", "has a pod that it must be apart from", "have pods it must be apart from"),
    ("pod affinity", "lacks a pod that it must be near", "lack a pod that it must be near"),
    ("volume", "cannot attach its volumes", "cannot attach its volumes"),
)  # fmt: skip
#: The highest priority that there is: that of system-node-critical.
#: Source: kubernetes v1.36.3 pkg/apis/scheduling.SystemCriticalPriority, plus 1,000.
_HIGHEST: Final = 2_000_001_000
_LAST_KNOWN: Final = "The last eviction of a pod of this name that this scheduler knows: "
#: Owners that never give the name of a pod again.
_RANDOM_NAMES: Final = ("Deployment", "ReplicaSet", "DaemonSet", "Job", "CronJob")
_INSUFFICIENT: Final = "Insufficient "
_NO: Final = "no: "
#: Victims in these states are evicted, or about to be gone.
GOING: Final = ("evicting", "terminating", "gone")


def of_preemption(view: PreemptionView, evicted: int, violated: int) -> tuple[str, Impact]:
    """Return what became of a preemption, and what it costs.

    Args:
        view: The preemption as its reader may see it.
        evicted: How many of all victims were evicted.
        violated: How many of the victims violate a disruption budget, of those that were evicted
            or may still be.
    """
    who, node = _sentence_start(view.preemptor), view.node
    planned = len(view.victims) + view.hidden_victims
    pods, victims = count(evicted, "pod"), count(planned, "pod")
    wasted = sum(victim.wasted for victim in view.victims)
    devices = _devices(view.devices)
    gets = f" for {devices}" if devices else ""
    if not view.ended_at:
        text = (
            f"{who} evicts {victims} on {node}{gets} and runs there when they are gone"
            if evicted
            else f"{who} is about to evict {victims} on {node}{gets}"
        )
        if view.devices is not None and (view.devices.claims or view.devices.more_claims):
            waits = _claims(view.devices, f"since {view.devices.victims_gone_at}")
            text = f"{who} evicted {pods} on {node} and waits{gets}: {waits}"
    elif view.outcome == "bound":
        took = _took(view)
        text = (
            f"{who} evicted {pods} on {node}{gets} and was bound there {took}later"
            if evicted
            else f"{who} was bound to {node}, and no pod was evicted"
        )
    else:
        were = "was" if evicted == 1 else "were"
        done = f"{pods} {were} evicted" if evicted else "no pod was evicted"
        how = _ENDS.get(view.outcome, "The preemption of {who} on {node} has ended")
        text = f"{how.format(who=who, node=node)}; {done} for it"
    if wasted and view.ended_at:
        text += f"; {count(wasted, 'eviction')} did not help"
    text += _violations(view.victims, violated, "was" if view.ended_at or evicted else "would be")
    costs = evicted or (planned and not view.ended_at)
    return f"{text}.", "budgets" if violated else "evictions" if costs else "none"


_ENDED: Final = "The preemption of {who} on {node} has ended"
_ENDS: Final = {
    "elsewhere": "{who} was bound to another node than {node} in the end",
    "failed": "The preemption of {who} on {node} failed",
    "given up": "{who} gave up {node}",
    "gone": "{who} was deleted before it ran on {node}",
    "unknown": "The replica that preempted for {who} on {node} ended first",
}


def of_pod(
    found: PodExplanation, now: Seconds, *, is_last_known: bool = False
) -> tuple[str, Impact]:
    """Return where a pod is and why, and what that does to other pods or to itself.

    Args:
        found: What is known of it.
        now: The time.
        is_last_known: Whether it was evicted, and was found by its name: a later pod of that name
            may have come and gone, unless its owner makes random names.
    """
    pod = named(found.pending.pod)
    own = next((e for e in found.evictions if e.victim.pod.uid == found.pending.pod.uid), None)
    earlier = next((e for e in found.evictions if e.victim.state in GOING), None)
    if found.state == "evicted" and earlier is not None:
        text, impact = _evicted(pod, own or earlier)
        owner = found.pending.pod.owner
        is_unique = owner is not None and owner.kind in _RANDOM_NAMES
        return f"{_LAST_KNOWN}{text}" if is_last_known and not is_unique else text, impact
    before = ""
    if earlier is not None and found.state != "left":
        verb, whom = _eviction_of(earlier.victim), _preemptor(earlier.preemption)
        before = f"; an earlier pod of this name {verb} for {whom}"
    if found.replaces is not None:
        victim, whom = found.replaces.victim.pod.name, _preemptor(found.replaces.preemption)
        before += f"; it replaces {victim}, which was evicted for {whom}"
    if found.state == "waiting":
        text, impact = of_waiting(found, pod, 1, now)
        return f"{text}{before}.", impact
    if found.placement is not None:
        planned = own is not None and own.victim.state == "planned"
        return f"{_running(found, pod, now)}{_fate(found, own, planned=planned)}{before}.", (
            "evictions" if planned else "none"
        )
    return f"{pod} waits no longer and is on no node: it has ended or was deleted.", "none"


def of_waiting(found: PodExplanation, who: str, number: int, now: Seconds) -> tuple[str, Impact]:
    """Return why some equal pods wait, without the period at the end.

    Args:
        found: One of them, evaluated now.
        who: Who waits.
        number: How many they are.
        now: The time.
    """
    pending = found.pending
    since = times.parse(pending.since) or now
    each = " each" if number > 1 else ""
    wants = [f"{amount(name, value)} {name}" for name, value in pending.pod.requests.items()]
    what = f" for {joined(wants[:_NAMED])}{each}" if wants else ""
    waits = f"{who} {'have' if number > 1 else 'has'} waited {age(now - since)}{what}"
    if found.node:
        return f"{waits} and {'fit' if number > 1 else 'fits'} on {found.node} now", "none"
    if pending.phase == "gated" or not found.verdicts:
        return f"{waits}{_untried(found)}".rstrip("."), "none"
    if found.devices is not None and pending.nominated_node and number == 1:
        waits = f"{who} has waited {age(now - since)} for"
        return f"{waits} {_awaited(found.devices, pending.nominated_node, now)}", "evictions"
    text = f"{waits}: {_nodes(found.verdicts)}"
    if found.preemption is not None:
        possible = found.preemption
        pods = count(len(possible.victims) + possible.hidden_victims, "pod")
        broken = _violations(possible.victims, possible.pdb_violations, "would be")
        impact: Impact = "budgets" if possible.pdb_violations else "evictions"
        devices = _devices(possible.devices)
        where = f"{possible.node} for {devices}" if devices else possible.node
        return f"{text}; a preemption would evict {pods} on {where}{broken}", impact
    if pending.nominated_node:
        where = pending.nominated_node
        return f"{waits} until evicted pods on {where} are gone, and then runs there", "evictions"
    higher = found.preempts_above
    helps = "" if higher is None else f"; a priority above {higher} would preempt"
    return f"{text}; {_no_eviction(found.verdicts)}{helps}", "none"


def _devices(found: PreemptionDevices | None) -> str:
    """Return which devices a preemptor waits for; empty if none, or if none may be seen."""
    items = () if found is None else found.items
    if found is None or not items:
        return ""
    more = len(items) - 1 + found.more
    return f"device {items[0].full_name}{f' and {more} more' if more else ''}"


def _awaited(found: PreemptionDevices, node: str, now: Seconds) -> str:
    """Return which devices on a node a pod waits for, and until what."""
    lasting = age(now - (times.parse(found.victims_gone_at) or now))
    claims = _claims(found, f"for {lasting}")
    why = claims or "it runs there when evicted pods are gone and their claims are deallocated"
    return f"{_devices(found) or 'devices'} on {node}: {why}"


def _claims(found: PreemptionDevices, lasting: str) -> str:
    """Return which claims are not deallocated; empty if nothing waits for that."""
    number = len(found.claims) + found.more_claims
    if not number:
        return ""
    named = [
        f"{each.namespace}/{each.name}" + (f" of the evicted pod {each.pod}" if each.pod else "")
        for each in found.claims[:_NAMED]
    ]
    more = number - len(named)
    what, verb = ("claim", "has") if number == 1 else ("claims", "have")
    if named:
        what = f"{what} {joined(named + ([f'{more} more'] if more else []))}"
    else:
        what = f"{count(number, 'claim')} that you may not see"
    return f"{what} {verb} not been deallocated {lasting}; kube-controller-manager does that"


def _untried(found: PodExplanation) -> str:
    """Return until when a pod waits that no node was asked for, or why."""
    gates = [text.split('"')[1] for text in found.suggestions if text.count('"') == 2]
    if found.pending.phase == "gated" and gates:
        return f" until its scheduling gate {joined(gates)} is removed"
    return f": {found.message}"


def named(pod: PodView) -> str:
    """Return the name of a pod, as far as the reader may see it."""
    return UNSEEN if pod.hidden else f"{pod.namespace}/{pod.name}"


def _sentence_start(pod: PodView) -> str:
    name = named(pod)
    return f"A{name[1:]}" if pod.hidden else name


def _preemptor(preemption: PreemptionView) -> str:
    return named(preemption.preemptor)


def _took(view: PreemptionView) -> str:
    began, ended = times.parse(view.decided_at), times.parse(view.ended_at)
    return "" if began is None or ended is None else f"{age(ended - began)} "


def _violations(victims: Sequence[VictimView], violated: int, verb: str) -> str:
    """Return which disruption budgets are violated, by name where the reader may see them.

    Args:
        victims: The victims that the reader may see.
        violated: How many of all victims violate a budget, of those that are or may be evicted.
        verb: `was` or `would be`.
    """
    if not violated:
        return ""
    seen = [each for each in victims if each.violates_pdb]
    seen = [each for each in seen if each.evicted_at or each.state != "spared"]
    names = sorted({name for victim in seen for name in victim.budgets})
    unseen = violated > len(seen)
    hidden = " that you may not see" if unseen else ""
    if not names:
        several = "were" if verb == "was" and violated > 1 else verb
        what = "a disruption budget" if violated == 1 else "disruption budgets"
        return f"; {count(violated, 'pod')} {several} evicted against {what}{hidden}"
    more = len(names) - _NAMED
    shown = names[:_NAMED] + ([f"{more} more"] if more > 0 else [])
    shown += [f"others{hidden}"] if unseen else []
    what = "disruption budget" if len(names) == 1 else "disruption budgets"
    verb = "were" if verb == "was" and len(shown) > 1 else verb
    return f"; the {what} {joined(shown)} {verb} violated"


def _evicted(pod: str, eviction: PodEviction) -> tuple[str, Impact]:
    victim, preemption = eviction.victim, eviction.preemption
    whom = preemption.preemptor
    higher = f"priority {whom.priority} > {victim.pod.priority}"
    verb = _eviction_of(victim, f" from {preemption.node}")
    text = f"{pod} {verb} for {named(whom)} ({higher})"
    if preemption.candidates_total > 1:
        rule = next((c.meaning for c in preemption.criteria if c.name == preemption.criterion), "")
        by = f" by: {rule}" if rule else ""
        text += f"; chosen of {preemption.candidates_total} nodes{by}"
    if victim.violates_pdb:
        text += _violations([victim], 1, "was")
    replacement = victim.replacement
    if replacement is not None:
        where = f" and runs on {replacement.node}" if replacement.node else " and waits"
        where = "" if replacement.message == NEITHER else where
        text += f"; {replacement.pod.name} {'replaces' if where else 'has replaced'} it{where}"
    elif victim.pod.owner is not None:
        text += f"; {victim.pod.owner.kind}/{victim.pod.owner.name} has not replaced it"
    return f"{text}.", "budgets" if victim.violates_pdb else "evictions"


def _eviction_of(victim: VictimView, where: str = "") -> str:
    """Return that a pod was evicted, or is being, with the time if that is known already."""
    verb = "was evicted" if victim.state == "gone" else "is being evicted"
    when = f" at {victim.evicted_at}" if victim.evicted_at else ""
    return f"{verb}{where}{when}"


def _running(found: PodExplanation, pod: str, now: Seconds) -> str:
    placement = found.placement
    assert placement is not None
    since = times.parse(placement.since)
    lasting = "" if since is None else f" for {age(now - since)}"
    whose = f"; its scheduler is {found.pending.scheduler_name}" if found.state == "foreign" else ""
    return f"{pod} has been on {placement.node}{lasting}{whose}"


def _fate(found: PodExplanation, own: PodEviction | None, *, planned: bool) -> str:
    """Return what may evict a pod that runs."""
    placement, priority = found.placement, found.pending.pod.priority
    assert placement is not None
    if planned and own is not None:
        return f", and is about to be evicted for {_preemptor(own.preemption)}"
    spared = ""
    if own is not None:
        spared = f"; it was to be evicted for {_preemptor(own.preemption)}, and was spared"
    if placement.terminating:
        return f", and is terminating{spared}"
    if placement.stopped_by:
        return (
            f'; no pod may evict it while policy "{placement.stopped_by}" stops preemption{spared}'
        )
    if priority >= _HIGHEST:
        return f"; no pod has a higher priority{spared}"
    text = f"; pods of a priority above {priority} may evict it"
    if placement.budgets:
        allowed = count(placement.allowed_disruptions, "disruption")
        text += f" (disruption budget {joined(placement.budgets[:_NAMED])} allows {allowed})"
    return f"{text}{spared}"


def _nodes(verdicts: Sequence[RejectionGroup]) -> str:
    """Return why nodes reject a pod, the most frequent reasons first."""
    parts = [f"{count(each.nodes, 'node')} {_meaning(each)}" for each in verdicts[:_NAMED]]
    more = len(verdicts) - _NAMED
    return joined(parts + ([f"{count(more, 'more reason')}"] if more > 0 else []))


def _meaning(group: RejectionGroup) -> str:
    one = group.nodes == 1
    if group.reason.startswith(_INSUFFICIENT):
        return f"{'lacks' if one else 'lack'} {group.reason.removeprefix(_INSUFFICIENT)}"
    for part, single, several in _MEANINGS:
        if part in group.reason:
            return single if one else several
    return f"{'says' if one else 'say'} {group.reason}".rstrip(".")


def _no_eviction(verdicts: Sequence[RejectionGroup]) -> str:
    """Return why evictions do not help."""
    reasons = [each.eviction for each in verdicts if each.resolvable and each.eviction]
    if not reasons:
        return "evictions do not help"
    why = reasons[0].removeprefix(_NO)
    return _WHY_NOT.get(why, f"evictions do not help: {why}")


#: Why evictions do not help, as groups of nodes say it, and in the sentence.
NOTHING_LOWER: Final = "nothing there has a lower priority"
#: Of a replacement that is not known any more.
NEITHER: Final = "it is on no node, and does not wait for this scheduler"
STILL_NOT: Final = "it would still not fit"
_WHY_NOT: Final = {
    NOTHING_LOWER: "no pod of lower priority can be evicted there",
    STILL_NOT: "evicting all pods of lower priority would not be enough",
}
