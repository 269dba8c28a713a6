"""Random clusters in families: small enough to read, dense enough to be interesting.

A cluster is named by its family and its seed, `preemption:17`, and is the same each time.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Final

from tests.oracle.generating import claims, configs, nodes, odd, pods, volumes, workloads
from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.traits import DeviceTraits, Traits

__all__ = ["FAMILIES", "Cluster", "cluster"]

_PRESSURE: Final = {
    "tight": 0.75, "few_places": 0.15, "priorities": 0.8, "never_preempts": 0.04, "crowded": 0.75,
}  # fmt: skip

#: How many nodes there are. What is kept between attempts is brought up to date row by row only
#: where few rows of many have changed.
_SMALL: Final = (1, 6)
_WIDE: Final = (17, 40)

_MIXED: Final = Traits(
    wide=0.1, tight=0.5, crowded=0.5, few_places=0.1, ephemeral=0.1, extended=0.2, init=0.15,
    overhead=0.05, pod_level=0.1, resized=0.05, limits=0.1, taints=0.2, cordoned=0.05,
    node_selector=0.1, node_affinity=0.1, preferred_nodes=0.15, ports=0.1, images=0.2,
    features=0.05, pod_affinity=0.1, preferred_pods=0.1, spread=0.2, workloads=0.2, priorities=0.5,
    never_preempts=0.03, budgets=0.4, nominated=0.1, terminating=0.05, gates=0.03, config=0.15,
    settle=0.3,
)  # fmt: skip

#: What each family is about.
FAMILIES: Final = {
    "resources": Traits(
        tight=0.4, crowded=0.15, few_places=0.1, ephemeral=0.2, extended=0.4, init=0.3,
        overhead=0.15, pod_level=0.2, resized=0.15, limits=0.3, priorities=0.3,
    ),
    "taints": Traits(taints=0.6, cordoned=0.15, priorities=0.1),
    "node-affinity": Traits(
        node_selector=0.25, node_affinity=0.45, preferred_nodes=0.45, priorities=0.1
    ),
    "ports": Traits(ports=0.6, init=0.15, priorities=0.6, crowded=0.2),
    "images": Traits(images=0.9, init=0.2),
    "features": Traits(features=0.5, priorities=0.3),
    "gates": Traits(gates=0.3, nominated=0.15, tight=0.5, priorities=0.5, crowded=0.3),
    "pod-affinity": Traits(
        pod_affinity=0.35, preferred_pods=0.3, tight=0.2, crowded=0.2, priorities=0.4,
        terminating=0.03,
    ),
    "spread": Traits(
        spread=0.7, workloads=0.4, taints=0.15, node_selector=0.1, tight=0.2, crowded=0.2,
        priorities=0.4, terminating=0.05,
    ),
    "preemption": Traits(**_PRESSURE, ports=0.05, node_selector=0.1, taints=0.1, terminating=0.05),
    "budgets": Traits(**_PRESSURE, budgets=0.9, terminating=0.05),
    "nominated": Traits(
        **_PRESSURE, budgets=0.3, nominated=0.5, terminating=0.3, gates=0.05, taints=0.2,
        node_affinity=0.1,
    ),
    "terminating": Traits(
        **_PRESSURE, queue=0.7, budgets=0.2, nominated=0.7, terminating=0.35, taints=0.05,
        ports=0.03, pod_affinity=0.03, settle=0.3,
    ),
    "odd": Traits(
        odd=0.3, taints=0.3, budgets=0.5, tight=0.4, crowded=0.3, priorities=0.6, pod_affinity=0.1,
        spread=0.1,
    ),
    "replicas": Traits(
        wide=1.0, tight=0.6, crowded=0.6, taints=0.15, node_affinity=0.1, preferred_nodes=0.15,
        ports=0.1, images=0.2, pod_affinity=0.15, preferred_pods=0.15, spread=0.25, priorities=0.5,
        budgets=0.3, workloads=0.2, nominated=0.05, terminating=0.03, extended=0.1, settle=0.3,
    ),
    "volumes": Traits(volumes=0.7, tight=0.1, priorities=0.2, terminating=0.03),
    "config": Traits(
        config=1.0, tight=0.4, extended=0.3, ephemeral=0.2, images=0.3, taints=0.2, ports=0.1,
        node_affinity=0.15, preferred_nodes=0.2, pod_affinity=0.1, preferred_pods=0.2, spread=0.2,
        workloads=0.3, priorities=0.3,
    ),
    "mixed": _MIXED,
    "everything": replace(_MIXED, volumes=0.15),
    "dra-claims": Traits(
        priorities=0.2,
        devices=DeviceTraits(shared=0.4, allocated=0.3, missing=0.05, admin=0.1),
    ),
    "dra-requests": Traits(
        devices=DeviceTraits(
            choices=0.35, every=0.15, admin=0.1, selectors=0.35, constraints=0.3, config=0.3,
            many=0.02, gated=0.01,
        )
    ),
    "dra-selectors": Traits(
        devices=DeviceTraits(selectors=0.8, failing=0.15, every=0.1, choices=0.1)
    ),
    "dra-constraints": Traits(
        devices=DeviceTraits(constraints=0.8, choices=0.1, selectors=0.1, network=0.2)
    ),
    "dra-pools": Traits(
        devices=DeviceTraits(network=0.7, incomplete=0.2, invalid=0.1, every=0.15, counters=0.1)
    ),
    "dra-partitions": Traits(
        devices=DeviceTraits(
            counters=0.8, network=0.3, incomplete=0.05, invalid=0.03, every=0.1, gated=0.05,
        )
    ),
    "dra-capacity": Traits(
        devices=DeviceTraits(
            capacity=0.7, odd_amounts=0.01, every=0.1, counters=0.15, constraints=0.1, network=0.2,
            choices=0.1,
        )
    ),
    "dra-taints": Traits(
        devices=DeviceTraits(tainted=0.3, rules=0.4, tolerations=0.4, every=0.1, choices=0.1)
    ),
    "dra-conditions": Traits(
        devices=DeviceTraits(conditions=0.5, shared=0.3, allocated=0.4, network=0.3)
    ),
    "dra-extended": Traits(
        extended=0.3, init=0.3, devices=DeviceTraits(claims=0.3, extended=0.6, network=0.2)
    ),
    "dra-scores": Traits(
        config=1.0, extended=0.3,
        devices=DeviceTraits(claims=0.3, extended=0.7, network=0.3, failing=0.0, shared=0.3),
    ),
    "dra-preemption": Traits(
        **_PRESSURE, budgets=0.2, nominated=0.1, terminating=0.05, settle=0.4,
        devices=DeviceTraits(shared=0.25, allocated=0.3, claims=0.5),
    ),
    "dra-large": Traits(
        devices=DeviceTraits(
            large=0.7, constraints=0.3, choices=0.1, admin=0.05, every=0.03, selectors=0.2,
            counters=0.15, capacity=0.1, tainted=0.05, tolerations=0.1, network=0.2,
        )
    ),
    "dra-mixed": replace(
        _MIXED,
        config=0.0,
        devices=DeviceTraits(
            shared=0.2, allocated=0.2, choices=0.15, every=0.08, constraints=0.2, config=0.1,
            network=0.3, incomplete=0.05, invalid=0.02, counters=0.2, capacity=0.2, tainted=0.1,
            rules=0.15, tolerations=0.15, conditions=0.1, extended=0.15, large=0.1,
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """One case: objects, and how they are decided."""

    name: str
    objects: list[Object]
    config: Object | None = None
    settle: bool = False


def cluster(family: str, seed: int) -> Cluster:
    """Return a cluster of a family.

    Raises:
        KeyError: There is no such family.
    """
    traits = FAMILIES[family]
    dice = Dice(zlib.crc32(family.encode()), seed)
    wide = dice.chance(traits.wide)
    names = [f"n{number}" for number in range(dice.number(*(_WIDE if wide else _SMALL)))]
    made = pods.Pods(dice, traits, names)
    crowd = range(_crowd(dice, traits, len(names)))
    if wide:
        placed = made.placed_replicas([f"e{number}" for number in crowd])
        waiting = made.waiting_replicas([f"p{number}" for number in range(dice.number(8, 24))])
    else:
        placed = [made.placed(f"e{number}") for number in crowd]
        queue = dice.number(4, 12) if dice.chance(traits.queue) else dice.number(1, 5)
        waiting = [made.waiting(f"p{number}") for number in range(queue)]
    everyone = [*placed, *waiting]
    objects = [each for each in workloads.namespaces() if dice.chance(0.97)]
    made_nodes = [nodes.node(dice, traits, name) for name in dice.shuffled(names)]
    objects += made_nodes
    if dice.chance(traits.budgets):
        objects += workloads.budgets(dice, placed)
    if dice.chance(traits.workloads):
        objects += workloads.workloads(dice, everyone)
    if traits.volumes:
        objects += volumes.storage(dice, traits, names, everyone)
    if traits.devices is not None:
        objects += claims.devices(dice, traits.devices, made_nodes, everyone)
    odd.spoil(dice, traits, everyone)
    own = None
    if dice.chance(traits.config):
        own = configs.config(dice, traits, names, everyone)
    return Cluster(f"{family}:{seed}", [*objects, *everyone], own, dice.chance(traits.settle))


def _crowd(dice: Dice, traits: Traits, nodes: int) -> int:
    """Return how many pods there are on nodes; not that many more in a wide cluster."""
    nodes = min(nodes, 20)
    if dice.chance(traits.crowded):
        return dice.number(2 * nodes, 5 * nodes)
    return dice.number(0, 3 * nodes)
