"""Stories: what happens to a cluster, step by step, and what must be true then.

    node n1 cpu=4; pod low@n1 cpu=4 priority=1; hold Evict
    schedule high; is preempting high; done low; nominated high=n1

Steps are separated by semicolons or lines. A step is a verb of `STEPS` and its words. An object is
its name, for a pod with `@` and its node, and calls of its builder: `priority=1` is `.priority(1)`,
`owner=Job,web` is `.owner("Job", "web")`. `plan=a,b` is an earlier leader's plan with two victims,
`waits=a` one that waits for a victim. `victims` adds a node and two pods on it; `high` and `top`
are pods of `PODS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import ClearNomination, Effect, RecordEvent
from scheduler.model.events import FailureKind
from scheduler.model.plan_record import CONDITION, VERSION, PlanRecord, encode, fingerprint
from scheduler.queue.phases import QueuePhase
from tests.support.builders import EPOCH, NodeBuilder, PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, victim, wasted

__all__ = ["Step", "made", "objects_of", "play", "steps_of"]

Step = Callable[..., object]

KINDS: Final = {kind.__name__: kind for kind in get_args(Effect)}
PODS: Final = {"high": HIGH, "top": pod("top").cpu("4").priority(200)}
#: Calls of builders whose arguments are numbers.
NUMERIC: Final = ("priority", "port", "created", "started", "version")


def equal(found: object, want: object) -> None:
    assert found == want, f"{found} is not {want}"


def built(start: Any, *calls: str) -> Any:
    """Return what some calls of its builder make of an object."""
    for call in calls:
        name, _, values = call.partition("=")
        given: list[Any] = values.split(",") if "=" in call else []
        if name in ("plan", "waits"):
            start = planned(start, given, waits=name == "waits")
        else:
            start = getattr(start, name)(*(map(int, given) if name in NUMERIC else given))
    return start


def planned(preemptor: PodBuilder, victims: list[str], *, waits: bool) -> PodBuilder:
    """Return a nominated pod to which an earlier leader has written its plan."""
    uids = (f"uid:{name if '/' in name else f'default/{name}'}" for name in victims)
    marks = tuple(fingerprint(preemptor.ref.uid, uid) for uid in uids)
    where = preemptor.object.status.nominated_node_name
    both = ((), marks) if waits else (marks, ())
    return preemptor.planned(encode(PlanRecord(VERSION, where, EPOCH, *both)))


def made(name: str, *calls: str) -> PodBuilder:
    """Return a pod, on its node if it has one."""
    name, _, where = name.partition("@")
    start = PODS.get(name) or pod(name)
    return built(start.on(where) if where else start, *calls)


def held(cluster: Cluster, name: str = "") -> Effect:
    """Return the oldest held effect about a pod, or about any."""
    about = {_about(each): each for each in reversed(cluster.held)}
    return about[name] if name else cluster.held[0]


def _about(effect: Effect) -> str:
    subject = getattr(effect, "victim", None) or getattr(effect, "pod", None)
    return "" if subject is None else subject.name


def objects_of(story: str) -> list[PodBuilder | NodeBuilder]:
    """Return the nodes and pods of a story that has no other steps."""
    found = (step.split() for step in steps_of(story))
    return [
        made(*words) if kind == "pod" else built(node(words[0]), *words[1:])
        for kind, *words in found
    ]


def fail(cluster: Cluster, *words: str) -> None:
    """Let a held effect fail, in the way that a word in capitals names."""
    names = [word for word in words if not word.isupper()]
    kinds = [FailureKind[word] for word in words if word.isupper()]
    cluster.fail(held(cluster, *names), *kinds)


def pairs(words: tuple[str, ...]) -> dict[str, str]:
    """Return the words `name=value` as a mapping."""
    return dict(word.split("=") for word in words)


def cleared(cluster: Cluster) -> list[str]:
    """Return the pods whose nomination was to be cleared, in order of their names."""
    asked = cluster.asked(ClearNomination)
    return sorted(each.pod.name for each in asked if isinstance(each, ClearNomination))


def check(cluster: Cluster, phase: str, *names: str) -> None:
    """Check that pods wait in a phase, or are `gone` from the queue."""
    want = None if phase == "gone" else QueuePhase(phase)
    equal({name: cluster.phase(name) for name in names}, dict.fromkeys(names, want))


def drain(cluster: Cluster, *words: str) -> None:
    """Decide until no pod is active, and check what was decided if there are words for it."""
    decisions = {each.pod.name: each.decision for each in cluster.drain()}
    if words:
        equal(decisions, {name: Placed(where) for name, where in pairs(words).items()})


def preempts(cluster: Cluster, name: str, where: str, *names: str) -> None:
    """Check that the last decision about a pod was to preempt these."""
    decision = [each.decision for each in cluster.attempts if each.pod.name == name][-1]
    assert isinstance(decision, Preempting), decision
    equal((decision.node, [each.name for each in decision.victims]), (where, list(names)))


def pods(fact: Callable[[Pod], str]) -> Step:
    """Return the step that compares a fact about pods with its words."""

    def compare(cluster: Cluster, *words: str) -> None:
        want = pairs(words)
        equal({name: fact(cluster.pod(name)) for name in want}, want)

    return compare


def says(cluster: Cluster, name: str, *words: str) -> None:
    """Check a part of what the condition of a rejected pod says."""
    found = cluster.pod(name).condition("PodScheduled")
    assert found is not None
    assert " ".join(words) in found.message, found.message


def effects(cluster: Cluster, *kinds: str) -> None:
    """Check the kinds of all effects but Events."""
    wanted = (each for each in cluster.effects if not isinstance(each, RecordEvent))
    equal([type(each).__name__ for each in wanted], list(kinds))


def same(found: Callable[[Cluster], object], want: Callable[[tuple[str, ...]], object]) -> Step:
    """Return the step that compares what is true with its words."""

    def compare(cluster: Cluster, *words: str) -> None:
        equal(found(cluster), want(words))

    return compare


STEPS: Final[Mapping[str, Step]] = {
    # What happens.
    "victims": lambda cluster: cluster.add(node("n1").cpu("4"), victim("a", 2), victim("b", 1)),
    "node": lambda cluster, name, *calls: cluster.add(built(node(name), *calls)),
    "pod": lambda cluster, *words: cluster.add(made(*words)),
    "schedule": lambda cluster, *words: cluster.schedule(made(*words)),
    "change": lambda cluster, name, *calls: cluster.change(name, lambda own: built(own, *calls)),
    "delete": lambda cluster, *names: [cluster.delete(name) for name in names],
    "delete-node": lambda cluster, name: cluster.delete_node(name),
    "finish": lambda cluster: cluster.finish_terminating(),
    "hold": lambda cluster, *kinds: cluster.hold(*(KINDS[kind] for kind in kinds)),
    "done": lambda cluster, *name: cluster.done(held(cluster, *name)),
    "unchanged": lambda cluster, *name: cluster.done(held(cluster, *name), changed=False),
    "fail": fail,
    "forget": lambda cluster: cluster.forget_effects(),
    "lag": lambda cluster: cluster.lag(),
    "catch-up": lambda cluster: cluster.catch_up(),
    "restart": lambda cluster: cluster.restart(),
    "wait": lambda cluster, seconds: cluster.wait(float(seconds)),
    "later": lambda cluster, seconds: setattr(cluster, "now", cluster.now + float(seconds)),
    "drain": drain,
    "step": lambda cluster: cluster.step(),
    # What is true.
    "is": check,
    "preempts": preempts,
    "placed": pods(lambda pod: pod.spec.node_name),
    "nominee": pods(lambda pod: pod.status.nominated_node_name),
    "terminating": pods(lambda pod: "yes" if pod.terminating else "no"),
    "has-plan": pods(lambda pod: "no" if pod.condition(CONDITION) is None else "yes"),
    "says": says,
    "effects": effects,
    "preempting": same(lambda cluster: [str(cluster.machine.sizes().preempting)], list),
    "assumed": same(lambda cluster: [str(cluster.machine.cluster.assumed)], list),
    "held": same(lambda cluster: [type(each).__name__ for each in cluster.held], list),
    "quiet": same(lambda cluster: cluster.drain(), list),
    "evicted": same(Cluster.evicted, list),
    "cleared": same(cleared, list),
    "nominated": same(Cluster.nominations, pairs),
    "wasted": same(wasted, lambda words: {key: int(n) for key, n in pairs(words).items()}),
}


def steps_of(story: str) -> list[str]:
    """Return the steps of a story."""
    return [*filter(None, map(str.strip, story.replace("\n", ";").split(";")))]


def play(story: str, cluster: Cluster | None = None, **steps: Step) -> Cluster:
    """Let a story happen, with some further steps; return the cluster at its end."""
    cluster = cluster or Cluster()
    for step in steps_of(story):
        verb, *words = step.split()
        try:
            (steps.get(verb) or STEPS[verb])(cluster, *words)
        except AssertionError as problem:
            problem.add_note(f"at the step: {step}")
            raise
    return cluster
