"""Which events requeue a pod that PodTopologySpread rejected."""

import pytest

from scheduler.model.api.objects import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from tests.support.affinities import constraint, labels, spread
from tests.support.builders import NodeBuilder, PodBuilder, node, pod, requirement

NONSENSE = constraint("zone", label_selector=labels(requirement("app", "Nonsense")))
WEB = pod("p").label("app", "web")
HONOR = constraint("zone", node_taints_policy="Honor", app="web")
WAITING = spread(pod("waiting").label("app", "web"), constraint("zone", app="web"))
RUNNING = WEB.on("n")


@pytest.mark.parametrize(
    ("waiting", "old", "new", "want"),
    [
        pytest.param(WAITING, None, RUNNING, True, id="a counted pod came"),
        pytest.param(WAITING, RUNNING, None, True, id="a counted pod went"),
        pytest.param(WAITING, None, RUNNING.label("app", "db"), False, id="another pod came"),
        pytest.param(WAITING, None, WEB, False, id="on no node"),
        pytest.param(WAITING, None, WEB.nominated("n"), True, id="nominated"),
        pytest.param(WAITING, None, RUNNING.namespace("other"), False, id="another namespace"),
        pytest.param(WAITING, RUNNING, RUNNING.label("app", "db"), True, id="does not count now"),
        pytest.param(WAITING, RUNNING, RUNNING.label("x", "y"), False, id="counts as before"),
        pytest.param(WAITING, RUNNING, RUNNING.tolerates("a"), False, id="a toleration of others"),
        pytest.param(WAITING, WAITING, WAITING.label("app", "db"), True, id="its own labels"),
        pytest.param(WAITING, WAITING, WAITING.tolerates("a"), False, id="taints not honored"),
        pytest.param(
            spread(pod("waiting"), HONOR), spread(pod("waiting"), HONOR),
            spread(pod("waiting"), HONOR).tolerates("a"), True, id="its own toleration",
        ),
        pytest.param(spread(pod("w"), NONSENSE), None, RUNNING, True, id="unreadable"),
        pytest.param(pod("w"), None, RUNNING, True, id="defaults may count any pod"),
        pytest.param(pod("w"), RUNNING, RUNNING.tolerates("a"), False, id="defaults, same labels"),
        pytest.param(pod("w"), RUNNING, RUNNING.label("x"), True, id="defaults, other labels"),
        pytest.param(
            spread(pod("w"), constraint("zone", soft=True, app="web")), None, RUNNING, False,
            id="no constraint must hold",
        ),
    ],
)  # fmt: skip
def test_which_pods_wake_a_pod(
    waiting: PodBuilder, old: PodBuilder | None, new: PodBuilder | None, want: bool
) -> None:
    rule = PodTopologySpread([TopologySpreadConstraint(1, "zone", "DoNotSchedule")])
    hint = rule.events_to_register()[0].hint

    assert hint(waiting.build(), old and old.build(), new and new.build()) is want


A = node("n").label("zone", "a")
KEYLESS = node("n")


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, A, True, id="a node with the keys came"),
        pytest.param(None, KEYLESS, False, id="a node without a key came"),
        pytest.param(A, None, True, id="a node with the keys went"),
        pytest.param(KEYLESS, None, False, id="a node without a key went"),
        pytest.param(KEYLESS, A, True, id="the key appeared"),
        pytest.param(A, KEYLESS, True, id="the key vanished"),
        pytest.param(A, A.label("zone", "b"), True, id="another value"),
        pytest.param(A, A.taint("x"), True, id="other taints"),
        pytest.param(KEYLESS, KEYLESS.taint("x"), False, id="other taints without the key"),
        pytest.param(A, A.label("x", "y"), False, id="another label"),
    ],
)
def test_which_nodes_wake_a_pod(
    old: NodeBuilder | None, new: NodeBuilder | None, want: bool
) -> None:
    hint = PodTopologySpread().events_to_register()[1].hint

    assert hint(WAITING.build(), old and old.build(), new and new.build()) is want


def test_a_pod_with_unreadable_constraints_is_woken_by_every_node() -> None:
    hint = PodTopologySpread().events_to_register()[1].hint

    assert hint(spread(pod("w"), NONSENSE).build(), None, KEYLESS.build())
