"""A thousand nodes and three thousand pods settle, and every pod is accounted for."""

import secrets
import sys
from collections import Counter
from itertools import cycle, islice

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from deploy.tools.controlplane.nodes import NodeShape
from scheduler.service.clock import Clock
from tests.integration.objects import condition, is_bound, pod, priority_class
from tests.integration.scene import requested
from tests.support.control_plane import VERSION
from tests.support.live import Schedulers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

NODES, PODS = 1000, 3000

#: Any three of these fit on a node of 2 cores, which takes no more than three pods.
SIZES = ("100m", "250m", "333m", "500m", "600m")

PODS_PATH = "/api/v1/namespaces/default/pods"


def test_a_thousand_nodes_and_three_thousand_pods_settle(tmp_path, capsys):
    clock, name = Clock(), f"t-{secrets.token_hex(4)}"
    settings = Settings(version=VERSION, controllers=False, kwok=False)
    with (
        ControlPlane(settings) as plane,
        Schedulers(tmp_path, plane.admin_kubeconfig) as schedulers,
    ):
        plane.api.apply([priority_class(each) for each in ("low", "high")])
        nodes = plane.create_nodes(NODES, NodeShape(cpu="2", pods=3, played=False))
        pods = [
            pod(f"p{i}", size, "high" if i % 7 == 0 else "low", by=name)
            for i, size in enumerate(islice(cycle(SIZES), PODS - 50))
        ]
        pods += [pod(f"huge-{i}", "3", "high", by=name) for i in range(50)]
        scheduler = schedulers.start(name=name)

        begun = clock.perf()
        plane.api.post_all(PODS_PATH, pods)
        created = clock.perf()
        found = plane.api.wait_for_list(PODS_PATH, Settled(), timeout=90)
        settled = clock.perf()

        assert len(found) == PODS
        bound = [each for each in found if is_bound(each)]
        assert len(bound) == PODS - 50
        millicores: Counter[str] = Counter()
        for each in bound:
            millicores[each["spec"]["nodeName"]] += requested(each)
        assert max(millicores.values()) <= 2000
        assert max(Counter(each["spec"]["nodeName"] for each in bound).values()) <= 3
        assert set(millicores) <= set(nodes)
        assert scheduler.metric("scheduler_cache_size", type="nodes") == NODES
        assert scheduler.metric("scheduler_cache_size", type="pods") == PODS - 50
        assert scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 2950
        assert scheduler.metric("scheduler_schedule_attempts_total", result="error") == 0
        assert scheduler.metric("scheduler_effects_total", effect="Evict") == 0
        assert scheduler.metric("scheduler_pending_pods", queue="unschedulable") == 50
    with capsys.disabled():
        sys.stdout.write(
            f"\n{PODS} pods on {NODES} nodes: created in {created - begun:.1f} s,"
            f" settled {settled - created:.1f} s later\n"
        )


class Settled:
    """Return whether every pod has a node or says why it has none; looks at each pod once."""

    def __init__(self):
        self._settled = 0

    def __call__(self, found):
        while self._settled < len(found) and is_settled(found[self._settled]):
            self._settled += 1
        return self._settled == len(found)


def is_settled(found):
    return is_bound(found) or bool(condition(found, "PodScheduled"))
