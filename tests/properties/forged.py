"""State that a stranger has written: plans of preemptions and ledgers of any content."""

import json
from typing import Any, Final

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.model.plan_record import PlanRecord, encode, fingerprint
from scheduler.model.policies import PodSelection, PreemptionPolicy
from tests.properties.changing import Changing
from tests.support.builders import pod

#: What a record says instead of a time, a version, a name or a list.
ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**63, 10**400, -1e308, 1e308, "", "x", "é\u0000", [], {}, [None], [[]],
)  # fmt: skip


def forge(world: Changing, seed: int) -> None:
    """Let a stranger write to every pod that waits, and the ledger; then a process begins.

    In every other world a policy protects the more important half of all pods.
    """
    dice = np.random.default_rng(seed)
    if seed % 2:
        kept = PodSelection(min_priority=1)
        world.policies["kept"] = PreemptionPolicy("kept", victims=kept, victim_min_runtime=1e9)
    for number in range(4):
        low = pod(world.new_name("s")).cpu(str(1 + number % 2)).priority(-5 if number else 9)
        world.put((low if number else low.never_preempts()).build())
    for found in list(world.pods.values()):
        if not found.spec.node_name and dice.integers(0, 3):
            forge_plan(world, found, dice)
    world.ledger = forged_ledger(world, dice)
    world.begin()


def forge_plan(world: Changing, preemptor: Pod, dice: np.random.Generator) -> None:
    """Write a plan to a pod: it names any pods, or it is damaged."""
    there = list(world.pods.values())
    nodes = [*world.nodes, "ghost", ""]
    where = _fullest(world) if dice.integers(0, 3) == 0 else str(dice.choice(nodes))
    match int(dice.integers(0, 3)):
        case 0:
            named = there
        case 1:
            named = [each for each in there if dice.integers(0, 2)]
        case _:
            named = [each for each in there if each.priority >= preemptor.priority]
    marks = tuple(fingerprint(preemptor.uid, each.uid) for each in named)
    split = int(dice.integers(0, len(marks) + 1)) if dice.integers(0, 3) == 0 else len(marks)
    begun = float(dice.choice([0.0, world.now - 10, world.now, world.now + 1e6, 1e300]))
    text = encode(PlanRecord(2, where, begun, marks[:split], marks[split:]))
    if dice.integers(0, 3) == 0:
        text = damaged(text, dice)
    nominated = where if dice.integers(0, 5) else str(dice.choice(nodes))
    world.change(preemptor.uid, lambda p: p.nominated(nominated).planned(text))


def forged_ledger(world: Changing, dice: np.random.Generator) -> str:
    """Return a ledger: that of the leader, a damaged one, or one that denies everything."""
    kind = int(dice.integers(0, 4))
    if kind == 0 or not world.ledger:
        return str(dice.choice(["", "{", "[]", "null", '{"version":1}', "x" * 10_000]))
    return world.ledger if kind == 1 else damaged(world.ledger, dice)


def damaged(text: str, dice: np.random.Generator) -> str:
    """Return a text of which a part is missing, doubled, or something else."""
    if not text:
        return "x"
    at, end = sorted(dice.integers(0, len(text) + 1, size=2).tolist())
    match int(dice.integers(0, 4)):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + text[end:]
        case 2:
            return text[:end] + text[at:]
        case _:
            return _spoilt(text, dice)


def _spoilt(text: str, dice: np.random.Generator) -> str:
    """Return a JSON object in which one value is another one."""
    try:
        whole = json.loads(text)
    except ValueError:
        return text
    if not isinstance(whole, dict) or not whole:
        return text
    key = sorted(whole)[int(dice.integers(0, len(whole)))]
    place: Any = whole[key]
    odd = ODD[int(dice.integers(0, len(ODD)))]
    if isinstance(place, list) and place and dice.integers(0, 2):
        place[int(dice.integers(0, len(place)))] = odd
    else:
        whole[key] = odd
    return json.dumps(whole)


def _fullest(world: Changing) -> str:
    """Return the node with the most pods."""
    count: dict[str, int] = dict.fromkeys(world.nodes, 0)
    for each in world.pods.values():
        if each.spec.node_name in count:
            count[each.spec.node_name] += 1
    return max(count, key=lambda name: (count[name], name), default="")
