"""What can happen to a world: each happening is a function of the world and three small numbers."""

from collections.abc import Callable
from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.model.effects import Bind
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    FailureKind,
    NodeGone,
    NodeObserved,
    PodObserved,
)
from tests.properties.bounds import nominations_follow_their_pods
from tests.properties.world import World
from tests.support.builders import OURS, PodBuilder, node, pdb, pod

Action = tuple[int, int, int, int]

NODES: Final = 6
KINDS: Final = [
    FailureKind.CONFLICT, FailureKind.FORBIDDEN, FailureKind.REFUSED, FailureKind.UNAVAILABLE,
]  # fmt: skip
#: Pods of one class are equal; a class is its number.
CLASSES: Final[list[Callable[[PodBuilder], PodBuilder]]] = [
    lambda p: p.cpu("1").priority(0),
    lambda p: p.cpu("1").priority(5),
    lambda p: p.cpu("2").priority(0).label("app", "web"),
    lambda p: p.cpu("3").priority(9),
    lambda p: p.cpu("2").priority(5).port(80),
    lambda p: p.cpu("1").priority(-3).label("app", "db"),
    lambda p: p.cpu("1").priority(2).selects(zone="a"),
    lambda p: p.cpu("4").priority(7).tolerates("t", operator="Exists"),
    lambda p: p.cpu("2").priority(9).never_preempts(),
    lambda p: p.requests({"cpu": "1", "example.com/gpu": "1"}).priority(3),
]


def write_node(world: World, a: int, b: int, c: int) -> None:
    """A node appears or changes; in a world without interference it never shrinks."""
    name = f"n{a % NODES}"
    built = node(name).cpu(str(2 + b % 5)).pods(3 + b % 3).label("zone", "ab"[c % 2])
    if c % 3 == 0:
        built = built.has({"example.com/gpu": "2"})
    if world.foreign:
        built = built.cordoned() if c % 7 == 0 else built
        built = built.taint("t") if c % 7 == 1 else built
    elif name in world.nodes:
        return
    world.nodes[name] = built.build()
    world.streams[1].append(NodeObserved(built.build()))


def delete_node(world: World, a: int, _b: int, _c: int) -> None:
    """A node is deleted; its pods stay until they are removed."""
    name = f"n{a % NODES}"
    if world.foreign and name in world.nodes:
        del world.nodes[name]
        world.streams[1].append(NodeGone(name))


def create_pod(world: World, a: int, b: int, _c: int) -> None:
    """A pod of ours is created, sometimes with a gate or a nomination."""
    built = CLASSES[a % len(CLASSES)](pod(world.new_name("p")))
    if b % 11 == 0:
        built = built.gated("g")
    if b % 13 == 1:
        built = built.nominated(f"n{b % NODES}")
    world.put(built.build())


def run_foreign_pod(world: World, a: int, b: int, c: int) -> None:
    """A pod of another scheduler runs on a node, or is nominated to one."""
    if not world.foreign:
        return
    # None with a port: two pods with one port on a node are a case of their own, shown elsewhere.
    portless = [0, 1, 2, 3, 5, 9]
    built = CLASSES[portless[a % 6]](pod(world.new_name("f"))).scheduler("other")
    where = f"n{b % NODES}"
    built = built.nominated(where) if c % 4 == 0 else built.on(where).started(world.count)
    world.put(built.build())


def clear_foreign_nomination(world: World, a: int, b: int, _c: int) -> None:
    """Another scheduler takes a nomination back, or moves it."""
    found = world.some(a, lambda p: _foreign(p) and bool(p.status.nominated_node_name))
    if found is not None:
        where = f"n{b % NODES}" if b % 2 else ""
        world.change(found.uid, lambda p: p.nominated(where))


def bind_by_others(world: World, a: int, b: int, _c: int) -> None:
    """Another scheduler binds a waiting pod."""
    found = world.some(a, lambda p: not p.spec.node_name and not p.terminating)
    ports = any(each.ports for each in found.spec.containers) if found else True
    if world.foreign and found is not None and not ports:
        world.change(found.uid, lambda p: p.on(f"n{b % NODES}").nominated(""))


def delete_pod(world: World, a: int, _b: int, c: int) -> None:
    """A pod is deleted: one on a node ends later, or at once."""
    found = world.some(a, lambda p: not p.terminating)
    if found is None:
        return
    if found.spec.node_name and c % 2:
        world.change(found.uid, lambda p: p.terminating())
    else:
        world.remove(found.uid)


def end_pod(world: World, a: int, _b: int, _c: int) -> None:
    """A terminating pod ends."""
    found = world.some(a, lambda p: p.terminating)
    if found is not None:
        world.remove(found.uid)


def finish_pod(world: World, a: int, b: int, _c: int) -> None:
    """A running pod finishes."""
    found = world.some(a, lambda p: bool(p.spec.node_name))
    if found is not None and b % 3 == 0:
        world.change(found.uid, lambda p: p.finished())


def relabel_pod(world: World, a: int, b: int, _c: int) -> None:
    """A pod gets another label, or loses its gate."""
    found = world.some(a, lambda p: True)
    if found is not None:
        app = ["web", "db", ""][b % 3]
        world.change(found.uid, lambda p: p.gated().label("app", app))


def resize_pod(world: World, a: int, b: int, _c: int) -> None:
    """A running pod shrinks; one that waits may grow, where no node's capacity is promised."""
    found = world.some(a, lambda p: bool(p.spec.node_name) or not _foreign(p))
    if found is not None:
        cpu = "3" if b % 2 and world.foreign and not found.spec.node_name else "500m"
        world.change(found.uid, lambda p: p.cpu(cpu))


def start_pod(world: World, a: int, b: int, _c: int) -> None:
    """A bound pod starts."""
    found = world.some(a, lambda p: bool(p.spec.node_name) and p.status.start_time is None)
    if found is not None:
        world.change(found.uid, lambda p: p.started(b))


def repeat(world: World, a: int, _b: int, _c: int) -> None:
    """A state is observed once more, as after a relist."""
    found = world.some(a, lambda p: True)
    if found is not None:
        world.streams[0].append(PodObserved(found))


def write_pdb(world: World, a: int, b: int, c: int) -> None:
    """A budget is created, changed or deleted."""
    name = f"b{a % 2}"
    if c % 5 == 0 and name in world.budgets:
        del world.budgets[name]
        world.streams[2].append(BudgetGone(f"default/{name}"))
        return
    built = pdb(name).selects(app=["web", "db"][b % 2]).allows(c % 4 - 1).build()
    world.budgets[name] = built
    world.streams[2].append(BudgetObserved(built))


def wait(world: World, a: int, _b: int, _c: int) -> None:
    """Time passes."""
    world.now += [0.3, 1.0, 2.5, 11.0][a % 4]
    world.machine.flush(world.now)


def hear(world: World, a: int, b: int, _c: int) -> None:
    """Some events of one stream reach the machine."""
    stream = world.streams[a % 3]
    for _ in range(min(len(stream), 1 + b % 6)):
        world.hear(stream.popleft())


def carry_out(world: World, a: int, b: int, _c: int) -> None:
    """An effect happens; one in ten fails, one in ten happens without a reliable answer."""
    effect = world.next_effect(a)
    if effect is None:
        return
    kind = KINDS[b // 10 % len(KINDS)] if b % 10 == 0 else world.write(effect)
    lost = b % 10 == 1 and kind is None
    if lost and isinstance(effect, Bind):
        world.late.append(effect)
    else:
        world.answer(effect, FailureKind.UNAVAILABLE if lost else kind)


def answer_late(world: World, a: int, _b: int, _c: int) -> None:
    """An answer that was long in coming arrives."""
    if world.late:
        world.answer(world.late.pop(a % len(world.late)), None)


def decide(world: World, _a: int, _b: int, _c: int) -> None:
    """The machine decides for the next pod."""
    world.decided()


def _foreign(each: Pod) -> bool:
    return each.spec.scheduler_name != OURS


ACTIONS: Final = [
    *[decide] * 8,
    *[hear] * 8,
    *[carry_out] * 7,
    *[create_pod] * 5,
    *[wait] * 3,
    *[write_node] * 3,
    *[run_foreign_pod] * 2,
    *[delete_pod] * 2,
    *[end_pod] * 2,
    answer_late,
    delete_node,
    clear_foreign_nomination,
    bind_by_others,
    finish_pod,
    relabel_pod,
    resize_pod,
    start_pod,
    repeat,
    write_pdb,
]


def act(world: World, action: Action) -> None:
    """Let one thing happen; after it no pod that fits may wait."""
    what, a, b, c = action
    ACTIONS[what % len(ACTIONS)](world, a, b, c)
    world.machine.check()
    nominations_follow_their_pods(world.machine)
    assert world.left_behind(preempts=False) == []


def history(seed: int, length: int = 400) -> list[Action]:
    """Return a long history from a seed."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2**16, size=(length, 4)).tolist()
    return [(what, a % 100, b % 100, c % 100) for what, a, b, c in numbers]


def lived(seed: int, length: int = 400, *, foreign: bool = True) -> World:
    """Return a world that has gone through the history of a seed."""
    world = World(foreign=foreign)
    for number in range(3):
        write_node(world, number, number, number + 2)
    for action in history(seed, length):
        act(world, action)
    return world


def digests() -> list[str]:
    """Return what three histories asked for, each as a short text."""
    return [lived(seed).digest() for seed in (11, 12, 13)]
