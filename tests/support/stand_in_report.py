"""A report on preemption as the scheduler serves it, for tests of clients."""

from typing import Final

from scheduler.model.rest.common import OwnerView
from scheduler.model.rest.report import (
    NamespaceReport,
    PolicyReport,
    PreemptorReport,
    ReportDocument,
)

__all__ = ["REPORT"]

_CORE_HOUR: Final = 3_600_000.0
_GIB_HOUR: Final = 3_600.0 * 2**30

REPORT: Final = ReportDocument(
    verdict=(
        "Between 2026-01-01 20:00 and 2026-01-02 08:00 UTC, 5 pods were evicted for 3 pods; 96"
        " core-h of work were lost, 4.1 % of it for nothing."
    ),
    impact="evictions",
    now="2026-01-02T09:00:00Z",
    since="2026-01-01T20:00:00Z",
    until="2026-01-02T08:00:00Z",
    known_since="2025-12-29T10:00:00Z",
    notes=("2 preemptions of pods that you may not see do not count.",),
    preemptors=3,
    victims=5,
    wasted_victims=1,
    cost={"cpu": 96 * _CORE_HOUR, "memory": 12 * _GIB_HOUR, "pods": 18_000.0},
    wasted_cost={"cpu": 4 * _CORE_HOUR},
    namespaces=(
        NamespaceReport(
            namespace="batch",
            victims=4,
            wasted_victims=1,
            cost={"cpu": 96 * _CORE_HOUR, "memory": 12 * _GIB_HOUR},
            wasted_cost={"cpu": 4 * _CORE_HOUR},
        ),
        NamespaceReport(
            namespace="prod", preemptors=2, evicted=5, caused_cost={"cpu": 96 * _CORE_HOUR}
        ),
        NamespaceReport(victims=1),
    ),
    top_preemptors=(
        PreemptorReport("prod", OwnerView("Deployment", "api"), 2, 3, 1, {"cpu": _CORE_HOUR}),
        PreemptorReport("prod", OwnerView("Job", "report"), 1, 2, 0, {"cpu": 95 * _CORE_HOUR}),
    ),
    policies=(PolicyReport("night-budget", "Enforce", 31),),
    known_refusals_since="2026-01-01T22:00:00Z",
    hidden=2,
)
