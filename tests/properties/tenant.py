"""A hostile tenant: everything that a user with the role `edit` in one namespace may write.

The tenant writes metadata and changeable parts of the spec of its own pods, creates pods of any
priority that it may use, also on nodes by name, and writes its own budgets and claims. It can
neither write `pods/status` nor anything in another namespace. Its pods hang as long as it likes.
"""

from typing import Final

import numpy as np

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import OwnerReference, Pod
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.model.effects import Effect, Evict
from scheduler.model.events import BudgetGone, BudgetObserved
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from tests.properties import changes, happenings
from tests.properties.bounds import Gone, too_many, wasted_evictions
from tests.properties.changing import Changing
from tests.properties.comparing import found_afresh
from tests.properties.happenings import NODES
from tests.properties.world import PROFILES
from tests.support.builders import pdb, pod
from tests.support.storage import claim

EVIL: Final = "evil"
#: The highest priority that the tenant may use.
HIGHEST: Final = 6
HUGE: Final = ("9223372036854775807", "1e18", "8Ei", "0", "-1", "1m", "0.0000000001", "1e999999")
#: An owner's name may be this long, in characters.
LONG: Final = 256 * 1024
#: A quota bounds the other objects that the tenant writes.
MAX_PODS: Final = 40


class Besieged(Changing):
    """A world with a hostile tenant. Its machine compares nothing: that takes time."""

    def __init__(self, *, policed: bool, restarts: bool) -> None:
        #: Pods that hang until the tenant lets them go.
        self.hanging: set[str] = set()
        #: The pods that were evicted, by the uid of the preemptor, and what one preemption took.
        self.gone: dict[str, list[Gone]] = {}
        self.begun = 0
        #: Pods that name their node themselves, until their kubelet has seen them.
        self.unseen: set[str] = set()
        super().__init__(foreign=True, policed=policed, restarts=restarts)

    def new_machine(self) -> Machine:
        self.begun += 1
        return Machine(PROFILES, PodBackoff())

    def tenants(self) -> list[Pod]:
        """Return the pods of the tenant."""
        return [each for each in self.pods.values() if each.metadata.namespace == EVIL]

    def one_of_tenants(self, number: int) -> Pod | None:
        """Return one of them."""
        found = self.tenants()
        return found[number % len(found)] if found else None

    def put(self, new: Pod) -> None:
        super().put(new)
        assert len(self.tenants()) <= MAX_PODS

    def has_quota(self) -> bool:
        """Return whether the tenant may create a pod more."""
        return len(self.tenants()) < MAX_PODS

    def write(self, effect: Effect):  # type: ignore[no-untyped-def]
        if isinstance(effect, Evict):
            victim = self.pods.get(effect.victim.uid)
            if victim is not None and not victim.terminating:
                where = victim.spec.node_name
                self.gone.setdefault(effect.preemptor.uid, []).append((self.now, where))
        return super().write(effect)

    def reject(self, uid: str) -> None:
        """Let the kubelet of a node, or the pod collector, refuse a pod that no scheduler bound."""
        self.unseen.discard(uid)
        self.change(uid, lambda p: p.finished("Failed"))

    def _end_terminating(self) -> bool:
        for uid in sorted(self.unseen):
            self.reject(uid)
        found = [
            each.uid for each in self.pods.values()
            if each.terminating and each.uid not in self.hanging
        ]  # fmt: skip
        for uid in found:
            self.remove(uid)
        return bool(found)

    # The end --------------------------------------------------------------------------------------

    def left_behind(self) -> list[object]:
        """Return the unschedulable pods of others that a fresh attempt would place."""
        machine, found = self.machine, []
        for queued in machine.queue:
            outside = queued.pod.metadata.namespace != EVIL
            unschedulable = (
                queued.phase is QueuePhase.UNSCHEDULABLE
                and not machine.queue.follows_representative(queued)
            )
            if outside and unschedulable:
                now, since = self.now, queued.unschedulable_since
                since = now if since is None else since
                outcome = found_afresh(PROFILES, machine, queued.classified, now, since)
                if outcome.node is not None:
                    found.append((queued.pod.key, outcome.node))
        return found

    def effects_within_an_hour(self) -> int:
        """Let an hour pass in which nothing happens but what the machine does."""
        before, until = len(self.effects), self.now + 3600.0
        while self.now < until:
            self.step_on()
            self.now += 30.0
        return len(self.effects) - before

    def step_on(self) -> None:
        """Let all events be observed, all effects be done, and all active pods be decided."""
        changes.flush(self)
        for _ in range(100):
            for stream in self.streams:
                while stream:
                    self.hear(stream.popleft())
            effect = self.next_effect(0)
            if effect is not None:
                self.answer(effect, self.write(effect))
            elif self._end_terminating():
                continue
            elif not self.machine.active() or self.decided() is None:
                return

    def too_many_wasted(self) -> dict[str, int]:
        """Return the preemptors with more wasted evictions than allowed."""
        bound_to = {each.uid: each.spec.node_name for each in self.pods.values()}
        wasted = wasted_evictions(self.gone, bound_to)
        return {
            uid: over for uid, each in wasted.items() if (over := too_many(each, self.begun - 1))
        }

    def leave(self) -> None:
        """Remove the tenant, with all that it wrote."""
        self.hanging.clear()
        for each in self.tenants():
            self.remove(each.uid)
        for name in [each for each in self.budgets if each.startswith("e")]:
            del self.budgets[name]
            self.streams[2].append(BudgetGone(f"{EVIL}/{name}"))
        for kind, key in [each for each in self.storage if each[1].startswith(f"{EVIL}/")]:
            self.unstore(kind, key)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of what the machine keeps for pods."""
        machine = self.machine
        cluster = machine.cluster
        named = {"resources": sum(map(bool, cluster.axis.values))}
        return {
            **named,
            "label sets": cluster.pods.pod_index.label_sets.live,
            "queue": len(machine.queue),
            "pods": len(cluster.pods),
            "claims": len(cluster.nominations),
            "rows": len([each for each in cluster.columns.names if each]),
            "terminating": cluster.evicting,
            "overdue": len(cluster.overdue),
            "unreported": len(machine.queue.unreported),
            # A pod that waits may keep its plan; a process that begins knows of none.
            "preempting": sum(
                plan.preemptor_uid not in self.pods for plan in machine.preemptions.state
            ),
        }


# What the tenant does -----------------------------------------------------------------------------


def create(world: Besieged, a: int, b: int, c: int) -> None:
    """A pod of any class, with any labels, of a priority that is allowed."""
    if not world.has_quota():
        return
    built = changes.CLASSES[a % len(changes.CLASSES)](pod(world.new_name("e"))).namespace(EVIL)
    built = built.priority(min(b % (HIGHEST + 2) - 1, HIGHEST)).label(f"k{world.count}", "v")
    if c % 5 == 0:
        built = built.gated("g")
    if c % 7 == 0:
        built = built.owner("Job", "x" * (LONG if c % 14 == 0 else 300))
    world.put(built.build())


def create_many(world: Besieged, a: int, b: int, _c: int) -> None:
    """Many pods at once, each of a class and a controller of its own."""
    for number in range(8):
        create(world, a + number, b, 7 * number)


def name_node(world: Besieged, a: int, b: int, c: int) -> None:
    """A pod that names its node itself, also one that does not exist, and wants what it likes."""
    if not world.has_quota():
        return
    where = f"n{b % NODES}" if c % 3 else f"ghost{b % 4}"
    wants = {"cpu": HUGE[a % len(HUGE)], "memory": HUGE[c % len(HUGE)]}
    if c % 4 == 0:
        wants = {f"evil.example.com/r{world.count}-{each}": "1" for each in range(50)}
    if c % 4 == 1:
        wants = {"cpu": "1"}
    built = pod(world.new_name("e")).namespace(EVIL).requests(wants)
    built = built.priority(b % (HIGHEST + 2) - 1).spec(node_name=where).label("app", "web").build()
    world.put(built)
    if wants != {"cpu": "1"}:
        world.unseen.add(built.uid)


def look(world: Besieged, a: int, _b: int, _c: int) -> None:
    """A kubelet sees a pod that it has no capacity for."""
    if world.unseen:
        world.reject(sorted(world.unseen)[a % len(world.unseen)])


def mark(world: Besieged, a: int, b: int, c: int) -> None:
    """Metadata of a pod: labels, owners that are made up; of its annotations none is read."""
    found, other = world.one_of_tenants(a), world.some(b, lambda p: True)
    if found is None or other is None:
        return
    names = ["x" * LONG, "é" * 1000, "", f"o{c}", other.metadata.name]
    owner = OwnerReference("apps/v1", ["ReplicaSet", "y" * 5000][b % 2], names[a % 5], "u", True)
    world.change(found.uid, lambda p: p.meta(owner_references=[owner]).label("z", f"{c}"))


def change_spec(world: Besieged, a: int, b: int, c: int) -> None:
    """Parts of the spec that may change: tolerations, sizes, gates, images."""
    found = world.one_of_tenants(a)
    if found is None:
        return
    if b % 4 == 0:
        world.change(found.uid, lambda p: p.tolerates(operator="Exists"))
    elif b % 4 == 1:
        world.change(found.uid, lambda p: p.cpu(["1", "4", "1e18", "0"][c % 4]))
    elif b % 4 == 2:
        world.change(found.uid, lambda p: p.gated())
    else:
        world.change(found.uid, lambda p: p.image("x" * (1 + c)))


def delete(world: Besieged, a: int, b: int, c: int) -> None:
    """A pod is deleted: it ends at once, after a grace period, or hangs by a finalizer."""
    found = world.one_of_tenants(a)
    if found is None or found.terminating:
        return
    if not b % 3:
        world.remove(found.uid)
        return
    stamp = times.stamp(world.now + c)
    if b % 3 == 1:
        world.hanging.add(found.uid)
    world.change(
        found.uid, lambda p: p.meta(deletion_timestamp=stamp, deletion_grace_period_seconds=c)
    )


def hang(world: Besieged, a: int, _b: int, _c: int) -> None:
    """A finalizer is added to a pod: when it is evicted it hangs."""
    found = world.one_of_tenants(a)
    if found is not None:
        world.hanging.add(found.uid)


def let_go(world: Besieged, a: int, _b: int, _c: int) -> None:
    """A finalizer is removed."""
    if world.hanging:
        world.hanging.discard(sorted(world.hanging)[a % len(world.hanging)])


def write_pdb(world: Besieged, a: int, b: int, c: int) -> None:
    """A budget of the tenant's own, which allows what it likes."""
    name = f"e{a % 5}"
    if c % 4 == 0 and name in world.budgets:
        del world.budgets[name]
        world.streams[2].append(BudgetGone(f"{EVIL}/{name}"))
        return
    built = pdb(name).namespace(EVIL).selects(app=["web", "db", "sp"][b % 3]).allows(c % 3 - 1)
    world.budgets[name] = built.build()
    world.streams[2].append(BudgetObserved(built.build()))


def write_claim(world: Besieged, a: int, b: int, _c: int) -> None:
    """A claim of the tenant's own, also on a volume of others."""
    name = f"c{a % changes.CLAIMS}"
    world.count += 1
    built = claim(name).namespace(EVIL).bound_to(f"v-c{b % changes.CLAIMS}").version(world.count)
    item: PersistentVolumeClaim = built.build()
    world.store("PersistentVolumeClaim", item, f"{EVIL}/{name}")


def end_pod(world: Besieged, a: int, _b: int, _c: int) -> None:
    """A terminating pod that does not hang ends."""
    found = world.some(a, lambda p: p.terminating and p.uid not in world.hanging)
    if found is not None:
        world.remove(found.uid)


HOSTILE: Final = [
    *[create] * 4,
    *[name_node] * 3,
    *[mark] * 3,
    *[change_spec] * 3,
    *[delete] * 2,
    *[hang] * 2,
    create_many,
    look,
    let_go,
    write_pdb,
    write_claim,
]
ACTIONS: Final = [
    *[end_pod if each is happenings.end_pod else each for each in changes.ACTIONS],
    *HOSTILE,
]


def lived(seed: int, length: int = 150) -> Besieged:
    """Return a world that has gone through the history of a seed."""
    world = Besieged(policed=seed % 3 > 0, restarts=seed % 2 > 0)
    changes.begin(world)
    dice = np.random.default_rng(seed)
    for what, a, b, c in dice.integers(0, 2**16, size=(length, 4)).tolist():
        ACTIONS[what % len(ACTIONS)](world, a % 100, b % 100, c % 100)
        world.check()
    return world
