"""A random life of a machine, in which trials are made, and what happens in them.

A life begins with a random cluster of the differential oracle. Then pods are decided, some of what
they ask for is carried out, and pods end. So there are assumed and nominated pods, victims that
terminate, and volumes and devices that are reserved for pods that are not bound yet.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from scheduler.config import load
from scheduler.core.attempt.scheduling_attempt import AttemptResult, SchedulingAlgorithm
from scheduler.core.machine import Machine
from scheduler.framework.plugin import PluginError
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api import pod_changes
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import READ_WRITE_ONCE_POD
from scheduler.model.api.storage import WAIT_FOR_FIRST_CONSUMER as WAIT
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Decision, Detail
from scheduler.model.effects import (
    Bind,
    BindClaims,
    BindVolumes,
    Effect,
    Evict,
    Nominate,
)
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    EffectDone,
    Event,
    NodeGone,
    PodGone,
    PodObserved,
    PolicyObserved,
    StorageObserved,
)
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if_cluster import events_of
from scheduler.state.cluster import Cluster
from scheduler.state.trial import Trial
from tests.oracle.generating.dice import Dice
from tests.properties.comparing import told
from tests.support.builders import PodBuilder
from tests.support.policies import at_most, policy
from tests.support.random_clusters import clusters
from tests.support.storage import claim, using, volume

__all__ = ["Life", "Trying", "found"]

OURS: Final = "preemptive-scheduler"
NOW: Final = 1_800_000_000.0


class Life:
    """A machine, and the pods that there are."""

    def __init__(self, family: str, seed: int) -> None:
        (manifests,) = clusters(family, (seed,))
        #: Its own, because plugins keep something about one cluster.
        self.profiles = registry.profiles(load.defaults())
        self.machine = Machine(self.profiles, PodBackoff())
        self.now = NOW
        self.pods: dict[str, Pod] = {}
        self.effects: list[Effect] = []
        self._dice = Dice(seed)
        self._pdbs = manifests.pdbs
        #: The attempts that were made: the pod, and the decision about it.
        self.attempts: list[tuple[str, Decision]] = []
        if seed % 2:
            self.observe(PolicyObserved(policy("few", budgets=at_most(2))))
        for event in _events(manifests):
            self.observe(event)

    @property
    def cluster(self) -> Cluster:
        """The state of the machine."""
        return self.machine.cluster

    def observe(self, event: Event) -> None:
        """Hand an event to the machine."""
        match event:
            case PodObserved(pod):
                self.pods[pod.uid] = pod
            case PodGone(_, uid):
                self.pods.pop(uid, None)
        reaction = self.machine.observe(event, self.now)
        self._take(reaction.effects)

    def step(self) -> None:
        """Decide for a pod, and let something happen."""
        self.now += 1.0
        attempt = self.machine.step(self.now)
        if attempt is not None:
            self.attempts.append((attempt.pod.key, attempt.decision))
            self._take(attempt.effects)
        self._happen()

    def waiting(self) -> list[Pod]:
        """Return the pods that wait for a node, in a fixed order."""
        placed = self.machine.cluster.find_pod
        return [queued.pod for queued in self.machine.queue if placed(queued.uid) is None]

    def _take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            self.effects.append(effect)
            # Reservations that are not answered keep volumes and devices.
            if not isinstance(effect, BindVolumes | BindClaims) and self._dice.chance(0.7):
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        self.observe(EffectDone(effect))
        match effect:
            case Bind(ref, node) if ref.uid in self.pods:
                self.observe(PodObserved(pod_changes.bound(self.pods[ref.uid], node)))
            case Nominate(ref, node) if ref.uid in self.pods:
                pod = self.pods[ref.uid]
                status = replace(pod.status, nominated_node_name=node)
                self.observe(PodObserved(replace(pod, status=status)))
            case Evict(victim=ref) if ref.uid in self.pods and self._dice.chance(0.5):
                pod = self.pods[ref.uid]
                metadata = replace(pod.metadata, deletion_timestamp="2027-01-15T08:00:00Z")
                self.observe(PodObserved(replace(pod, metadata=metadata)))

    def _happen(self) -> None:
        """Let pods come and end, and now and then a node go that has pods."""
        dice, uids = self._dice, [*self.pods]
        nodes = [node.metadata.name for node in self.cluster.columns.nodes if node is not None]
        if uids and dice.chance(0.4):
            number = dice.number(0, 10**9)
            new = another(self.pods[dice.pick(uids)], number)
            self.observe(PodObserved(self._with_claim(new, number)))
        if uids and dice.chance(0.2):
            pod = self.pods[dice.pick(uids)]
            self.observe(PodGone(pod.key, pod.uid))
        placed = [uid for uid in self.pods if self.cluster.find_pod(uid) is not None]
        if placed and dice.chance(0.05):
            self.cluster.mark_overdue(dice.pick(placed))
        if len(nodes) > 1 and dice.chance(0.05):
            self.observe(NodeGone(dice.pick(nodes)))
        if self._pdbs and dice.chance(0.2):
            pdb = dice.pick(self._pdbs)
            key = pdb.metadata.key
            self.observe(BudgetObserved(pdb) if dice.chance(0.5) else BudgetGone(key))

    def _with_claim(self, pod: Pod, number: int) -> Pod:
        """Return a pod with a claim more, which waits for it, if there are classes for that."""
        dice, classes = self._dice, self.cluster.volumes.classes.values()
        waiting = [each.metadata.name for each in classes if each.volume_binding_mode == WAIT]
        if not waiting:
            return pod
        name, of_class = f"own-{number}", dice.pick(waiting)
        mode = dice.pick(["ReadWriteOnce", READ_WRITE_ONCE_POD])
        made = claim(name).namespace(pod.metadata.namespace).of_class(of_class).modes(mode)
        if dice.chance(0.7):
            reachable = volume(name).of_class(of_class).modes(mode)
            self.observe(StorageObserved(reachable.build()))
        self.observe(StorageObserved(made.build()))
        return using(PodBuilder(pod), name).build()


def another(pod: Pod, number: int) -> Pod:
    """Return a new pod that is like another one, perhaps with labels that no pod has."""
    name = f"{pod.metadata.name}-{number}"
    labels = {**pod.metadata.labels, **({"number": str(number)} if number % 2 else {})}
    metadata = replace(pod.metadata, uid=name, name=name, labels=labels, deletion_timestamp=None)
    spec = replace(pod.spec, scheduler_name=OURS, node_name="")
    return replace(pod, metadata=metadata, spec=spec)


def _events(manifests: Manifests) -> Iterator[Event]:
    yield from events_of(manifests)
    for pod in manifests.pods:
        if not pod.terminal and (pod.spec.node_name or not pod.terminating):
            named = replace(pod.spec, scheduler_name=OURS)
            yield PodObserved(pod if pod.spec.node_name else replace(pod, spec=named))


def found(
    life: Life, pod: Pod, attempts: SchedulingAlgorithm | None = None
) -> tuple[AttemptResult | str, tuple[object, ...]]:
    """Return what an attempt for a pod finds, by default one that has nothing cached.

    Returns:
        The result or the error, and what can be compared of it: verdict and scores of each node,
        and the decision.
    """
    machine = life.machine
    fresh = SchedulingAlgorithm(life.profiles, life.cluster, Verdicts(), machine.policies)
    classified = ClassifiedPod(pod)
    chosen = fresh if attempts is None else attempts
    try:
        next(chosen.decide(classified, now=NOW, since=NOW, detail=Detail.NODES))
    except StopIteration as end:
        result: AttemptResult = end.value  # no extender is asked
    except PluginError as error:
        return str(error), (str(error),)
    nodes = [
        (each.name, str(each.verdict), each.scores, tuple(map(str, each.vetoes)))
        for each in result.results
    ]
    candidate = result.candidate
    chosen_victims = None
    if candidate is not None:
        # An assumed victim has not the state that it has once it was observed on its node.
        victims = tuple(victim.uid for victim in candidate.victims)
        chosen_victims = (candidate.row, victims, candidate.violations)
    return result, (
        nodes,
        chosen_victims,
        told(replace(result, post_filter=replace(result.post_filter, candidate=None))),
    )


class Trying:
    """Random changes in a trial."""

    def __init__(self, life: Life, dice: Dice) -> None:
        self._machine, self._dice, self._life = life.machine, dice, life
        self.trial = Trial(life.cluster)
        #: What happened, for messages.
        self.log: list[str] = []

    def change(self) -> None:
        """Make a change, or look at the cluster."""
        match self._dice.number(0, 7):
            case 0 | 1 | 2:
                self._place_well()
            case 3 | 4:
                self._place_anywhere()
            case 5:
                self._remove()
            case 6:
                self._look()
            case _:
                keep = self._dice.number(0, len(self.trial))
                self.log.append(f"undo({keep})")
                self.trial.undo(keep)

    def _place_well(self) -> None:
        waiting = self._life.waiting()
        if waiting:
            pod = self._dice.pick(waiting)
            result, _ = found(self._life, pod, self._machine._attempts)
            if isinstance(result, AttemptResult) and result.node is not None:
                self.place(pod, result)

    def _place_anywhere(self) -> None:
        cluster = self._life.cluster
        nodes = [node.metadata.name for node in cluster.columns.nodes if node is not None]
        alike = [another(pod, self._dice.number(0, 10**9)) for pod in self._life.pods.values()]
        pods = [*self._life.waiting(), *alike]
        if nodes and pods:
            self._assume(self._dice.pick(pods), self._dice.pick(nodes))

    def _assume(self, pod: Pod, node: str) -> None:
        cluster = self._life.cluster
        if cluster.find_pod(pod.uid) is not None:
            return
        self.log.append(f"assume({pod.key}, {node})")
        self.trial.assume(pod, node)

    def place(self, pod: Pod, result: AttemptResult) -> list[str]:
        """Assume a pod where an attempt places it; return the plugins that reserve for it."""
        binding = self._machine._binding
        assert result.node is not None
        assert result.state is not None
        self.log.append(f"place({pod.key}, {result.node})")
        self.trial.assume(pod, result.node)
        try:
            reservations = binding.reserve(result.state, result.node)
        except PluginError as error:
            self.log.append(str(error))
            return []
        self.trial.undo_also(partial(binding.release, reservations))
        plugins = [each.plugin for each in reservations]
        self.log.append(f"reserve({plugins})")
        return plugins

    def _remove(self) -> None:
        pods = [pod.uid for pod in self._life.cluster.pods]
        if pods:
            uid = self._dice.pick(pods)
            self.log.append(f"remove({uid})")
            self.trial.remove(uid)

    def _look(self) -> None:
        """Assert that cached results are those of an attempt that has nothing cached."""
        waiting = self._life.waiting()
        if waiting:
            pod = self._dice.pick(waiting)
            _, cached = found(self._life, pod, self._machine._attempts)
            _, fresh = found(self._life, pod)
            assert cached == fresh, self.log
