"""Candidates are recorded as they were compared, and recording changes no decision."""

import pytest

from scheduler.model.decisions import Detail, Gated, Preempting
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.support.cluster import profiles
from tests.support.random_clusters import clusters

SEEDS = range(40)


def attempts(manifests: Manifests, detail: Detail) -> list[object]:
    options = WhatIfOptions(detail=detail)
    return list(WhatIfCluster(manifests, profiles(), PodBackoff(), options).attempts())


@pytest.mark.parametrize("family", ["preemption", "budgets", "nominated"])
def test_details_change_no_decision_and_agree_with_it(family: str):
    compared = 0
    for manifests in clusters(family, SEEDS):
        plain, detailed = (
            attempts(manifests, Detail.NONE),
            attempts(manifests, Detail.COUNTS),
        )

        assert [(each.pod, each.decision) for each in plain] == [
            (each.pod, each.decision) for each in detailed
        ]
        for attempt in detailed:
            if isinstance(attempt.decision, Gated):
                continue
            decision, found = attempt.decision, attempt.comparison
            if not isinstance(decision, Preempting):
                assert found is None
                continue
            compared += 1
            first, *others = found.candidates
            assert (first.node, first.lost_by) == (decision.node, None)
            names = [label.name for label in found.criteria]
            values = dict(zip(names, first.values, strict=True))
            assert (values["victims"], values["pdbViolations"]) == (
                len(decision.victims),
                decision.violations,
            )
            assert len(attempt.violating) == decision.violations
            assert all(each.lost_by for each in others)
            assert found.total >= len(found.candidates)
    assert compared > 10
