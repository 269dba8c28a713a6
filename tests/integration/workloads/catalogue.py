"""All workloads."""

from tests.integration.workloads import (
    affinity,
    claiming,
    extending,
    placing,
    preempting,
    queueing,
    storing,
)
from tests.integration.workloads.kinds import Workload

WORKLOADS = (
    Workload(placing.resources, (38, 5, 0)),
    Workload(placing.containers, (21, 4, 0)),
    Workload(affinity.spread_default, (24, 0, 0)),
    Workload(storing.local_volumes, (20, 3, 0)),
    Workload(storing.zonal_volumes, (11, 3, 0)),
    Workload(preempting.preemption, (12, 6, 12)),
    Workload(preempting.preemption_with_budgets, (9, 3, 12)),
    Workload(preempting.preemption_by_conflicts, (12, 2, 6)),
    Workload(extending.extender, (17, 1, 1), config=extending.CONFIG, answers=extending.ANSWERS),
    Workload(
        claiming.devices, (17, 5, 0), needs=("1.36", "older API servers drop taints of devices")
    ),
    Workload(claiming.choices_of_devices, (7, 3, 0), later=((6, claiming.share_claim),)),
    Workload(
        claiming.freed_devices,
        (7, 0, 0),
        later=((4, claiming.end_holder), (5, claiming.add_devices)),
    ),
    Workload(claiming.preemption_and_devices, (4, 2, 2)),
    Workload(
        claiming.extended_resources,
        (5, 1, 0),
        needs=("1.36", "older API servers drop extended resources of classes"),
    ),
    Workload(queueing.priority_order, (15, 12, 0)),
    Workload(
        queueing.gates,
        (24, 3, 0),
        later=((12, queueing.lift_first_gate), (20, queueing.lift_second_gate)),
    ),
    Workload(
        queueing.waking, (11, 1, 0), later=((4, queueing.end_maintenance), (8, queueing.add_nodes))
    ),
)
