"""What can happen to a world in which pods change; see `happenings` for the form."""

from collections.abc import Callable
from typing import Final

import numpy as np

from scheduler.model.events import (
    NodeObserved,
    PodObserved,
    PolicyGone,
    PolicyObserved,
)
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)
from tests.properties import happenings
from tests.properties.changing import Changing
from tests.properties.happenings import NODES, Action
from tests.support.builders import PodBuilder, node, pod
from tests.support.storage import claim, using, volume

CLAIMS: Final = 3
APPS: Final = ("web", "db", "sp", "")
#: Pods of one class are equal as long as they do not change.
CLASSES: Final[list[Callable[[PodBuilder], PodBuilder]]] = [
    *happenings.CLASSES,
    lambda p: p.cpu("1").priority(6).label("app", "web").apart("h", app="web"),
    lambda p: p.cpu("1").priority(4).apart("zone", app="db"),
    lambda p: p.cpu("2").priority(8).near("zone", app="web"),
    lambda p: p.cpu("1").priority(3).label("app", "sp").spreads("zone", app="sp"),
    lambda p: using(p.cpu("1").priority(5), "c0"),
    lambda p: using(p.cpu("2").priority(9), "c1"),
    lambda p: using(p.cpu("1").priority(1), "c1", "c2"),
    lambda p: p.cpu("4").priority(8).owner("ReplicaSet", "r"),
    lambda p: p.cpu("3").priority(9).owner("Job", "j"),
    lambda p: p.cpu("1").priority(0).owner("ReplicaSet", "r"),
]
#: What a foreign pod may be: none with a port, and none with a claim.
FOREIGN: Final = (0, 1, 2, 3, 5, 9, 10, 11, 13, 19)
RULES: Final[list[dict[str, object]]] = [
    {"max_victims_per_preemption": 1},
    {"victim_min_runtime": 30.0},
    {"preemptor_delay": 20.0},
    {"budgets": (Budget(1, 60.0),)},
    {"budgets": (Budget(2, 60.0, BudgetScope.OWNER),)},
    {"budgets": (Budget(1, 60.0, BudgetScope.NODE),)},
    {"foreign_victims": ForeignVictims.NEVER},
    {"victims_from": VictimsFrom.SAME_OWNER},
    {"disruption_budgets": DisruptionBudgets.STRICT},
    {"max_preemptions_per_owner": PreemptionLimit(1, 60.0)},
    {"victims": PodSelection(max_priority=1), "budgets": (Budget(0, 60.0),)},
]


def write_node(world: Changing, a: int, b: int, c: int) -> None:
    """A node appears or changes; in a world without interference it never shrinks."""
    name = f"n{a % NODES}"
    built = node(name).cpu(str(2 + b % 5)).pods(3 + b % 3)
    built = built.label("zone", "ab"[a % 2]).label("h", name)
    if c % 3 == 0:
        built = built.has({"example.com/gpu": "2"})
    if world.foreign:
        built = built.cordoned() if c % 7 == 0 else built
        built = built.taint("t") if c % 5 == 1 else built
        built = built.label("zone", "c") if c % 11 == 2 else built
    elif name in world.nodes:
        return
    world.nodes[name] = built.build()
    world.streams[1].append(NodeObserved(built.build()))


def create_pod(world: Changing, a: int, b: int, _c: int) -> None:
    """A pod of ours is created, sometimes with a gate or a nomination."""
    built = CLASSES[a % len(CLASSES)](pod(world.new_name("p")))
    if b % 11 == 0:
        built = built.gated("g")
    if b % 13 == 1:
        built = built.nominated(f"n{b % NODES}")
    world.put(built.build())


def run_foreign_pod(world: Changing, a: int, b: int, c: int) -> None:
    """A pod of another scheduler runs on a node, or is nominated to one."""
    if not world.foreign:
        return
    built = CLASSES[FOREIGN[a % len(FOREIGN)]](pod(world.new_name("f"))).scheduler("other")
    where = f"n{b % NODES}"
    built = built.nominated(where) if c % 4 == 0 else built.on(where).started(world.count)
    world.put(built.build())


def begin(world: Changing) -> None:
    """Nodes and claims are there, and pods of ours that are not important run on every node."""
    for number in range(4):
        write_node(world, number, number, number + 2)
    for number in range(CLAIMS):
        change_claim(world, number, 1, number)
    for name, each in world.nodes.items():
        for number in range(int(each.status.allocatable["cpu"]) - 1):
            low = pod(world.new_name("low")).cpu("1").priority(number % 3 - 1).on(name)
            world.put(low.label("app", APPS[number % len(APPS)]).build())


def relabel(world: Changing, a: int, b: int, _c: int) -> None:
    """A pod gets another label, or loses its gate."""
    found = world.some(a, lambda p: not p.terminating)
    if found is not None:
        app = APPS[b % len(APPS)]
        world.change(found.uid, lambda p: p.gated().label("app", app))


def tolerate(world: Changing, a: int, _b: int, _c: int) -> None:
    """A toleration is added to a pod."""
    found = world.some(a, lambda p: not p.spec.node_name)
    if found is not None:
        world.change(found.uid, lambda p: p.tolerates("t", operator="Exists"))


def resize(world: Changing, a: int, b: int, _c: int) -> None:
    """A pod that waits is resized; where others interfere, one that runs as well."""
    found = world.some(a, lambda p: world.foreign or not p.spec.node_name)
    if found is not None:
        world.resized.add(found.uid)
        world.change(found.uid, lambda p: p.cpu(str(1 + b % 4)))


def reown(world: Changing, a: int, b: int, _c: int) -> None:
    """A pod gets another controller."""
    found = world.some(a, lambda p: not p.terminating)
    if found is not None:
        world.change(found.uid, lambda p: p.owner(["Job", "ReplicaSet"][b % 2], "rj"[b % 2]))


def change_claim(world: Changing, a: int, b: int, c: int) -> None:
    """A claim is created with its volume, in another zone or with another mode, or is deleted."""
    name = f"c{a % CLAIMS}"
    if b % 4 == 0:
        world.unstore("PersistentVolumeClaim", f"default/{name}")
        return
    mode = "ReadWriteOncePod" if c % 3 == 0 else "ReadWriteOnce"
    made = volume(f"v-{name}").modes(mode).for_claim(name).csi("csi.example.com", name)
    if c % 2:
        made = made.reached_by(zone="ab"[b % 2])
    taken = claim(name).modes(mode).bound_to(f"v-{name}")
    world.count += 1
    world.store("PersistentVolume", made.version(world.count).build(), f"v-{name}")
    built = taken.version(world.count).build()
    world.store("PersistentVolumeClaim", built, f"default/{name}")


def write_policy(world: Changing, a: int, b: int, c: int) -> None:
    """A policy is created, changed or deleted."""
    if not world.policed:
        return
    name = f"q{a % 2}"
    if c % 3 == 0 and name in world.policies:
        del world.policies[name]
        world.streams[3].append(PolicyGone(name))
        return
    rules = dict(RULES[b % len(RULES)])
    if c % 4 == 0:
        rules |= RULES[(b + c) % len(RULES)]
    world.count += 1
    policy = PreemptionPolicy(name, generation=world.count, **rules)  # type: ignore[arg-type]
    world.policies[name] = policy
    world.streams[3].append(PolicyObserved(policy))


def wait(world: Changing, a: int, _b: int, _c: int) -> None:
    """Time passes."""
    world.now += [0.3, 1.0, 2.5, 11.0, 40.0][a % 5]
    flush(world)


def flush(world: Changing) -> None:
    """Let the machine do what is due."""
    world.machine.flush(world.now)
    world.take_due()


def hear(world: Changing, a: int, b: int, _c: int) -> None:
    """Some events of one stream reach the machine."""
    stream = world.streams[a % len(world.streams)]
    for _ in range(min(len(stream), 1 + b % 6)):
        world.hear(stream.popleft())


def hear_of_pods(world: Changing, _a: int, b: int, _c: int) -> None:
    """Some events of pods reach the machine."""
    hear(world, 0, b, 0)


def repeat(world: Changing, a: int, _b: int, _c: int) -> None:
    """A state is observed once more, as after a relist."""
    found = world.some(a, lambda p: True)
    if found is not None:
        world.streams[0].append(PodObserved(found))


def kill(world: Changing, a: int, _b: int, _c: int) -> None:
    """The process ends, and another one begins."""
    if world.restarts and a % 3 == 0:
        world.begin()


ACTIONS: Final = [
    *[happenings.decide] * 9,
    *[hear] * 4,
    *[hear_of_pods] * 5,
    *[happenings.carry_out] * 8,
    *[create_pod] * 5,
    *[wait] * 3,
    *[write_node] * 2,
    *[run_foreign_pod] * 2,
    *[happenings.delete_pod] * 2,
    *[happenings.end_pod] * 3,
    *[relabel] * 2,
    *[tolerate] * 2,
    *[resize] * 2,
    happenings.answer_late,
    happenings.delete_node,
    happenings.finish_pod,
    happenings.start_pod,
    happenings.write_pdb,
    reown,
    change_claim,
    write_policy,
    repeat,
    kill,
]


def act(world: Changing, action: Action) -> None:
    """Let one thing happen."""
    what, a, b, c = action
    ACTIONS[what % len(ACTIONS)](world, a, b, c)
    world.check()


def lived(seed: int, length: int = 200) -> Changing:
    """Return a world that has gone through the history of a seed."""
    world = Changing(foreign=seed % 3 > 0, policed=seed % 4 > 1, restarts=seed % 5 > 2)
    begin(world)
    dice = np.random.default_rng(seed)
    numbers = dice.integers(0, 2**16, size=(length, 4)).tolist()
    for what, a, b, c in numbers:
        act(world, (what, a % 100, b % 100, c % 100))
    return world
