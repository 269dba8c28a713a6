"""PodTopologySpread: even over hosts, zones, or any label."""

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.plugin import SKIP, Reads, Rejected
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from scheduler.state.views.node_view import NodeView
from tests.support.affinities import (
    HOSTNAME,
    ZONE,
    Twin,
    constraint,
    labels,
    reasons,
    service,
    spread,
)
from tests.support.builders import PodBuilder, node, pod, requirement
from tests.support.plugin_checks import ATTEMPT, in_attempt

FITS = ""
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"
NONSENSE = constraint("zone", label_selector=labels(requirement("app", "Nonsense")))
WEB = pod("p").label("app", "web")


@pytest.fixture
def twin() -> Twin:
    """Zones a (two nodes) and b, and a node without a zone."""
    made = Twin()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None)):
        named = node(name).label("host", name)
        made.node((named.label("zone", zone) if zone else named).build())
    return made


def run(twin: Twin, **where: int) -> None:
    """Place this number of web pods on each node."""
    for name, count in where.items():
        for number in range(count):
            twin.place(pod(f"web-{name}-{number}").label("app", "web").build(), name)


def rejections(
    twin: Twin, builder: PodBuilder, defaults: list[TopologySpreadConstraint] | None = None
) -> list[str]:
    """Return the reason against each node."""
    verdicts = Verdicts()
    rule = PodTopologySpread(defaults)
    compiled_filter = rule.compile_filter(builder.build(), twin.cluster, verdicts)
    if compiled_filter is None:
        return []
    codes = in_attempt(compiled_filter).codes(twin.cluster.nodes())
    return reasons(codes.tolist(), verdicts)


def scored(
    twin: Twin, builder: PodBuilder, defaults: list[TopologySpreadConstraint] | None = None
) -> list[int]:
    """Return the normalised score of each node."""
    compiled_score = PodTopologySpread(defaults).compile_score(builder.build(), twin.cluster)
    if compiled_score is None or compiled_score.prepare(ATTEMPT) is SKIP:
        return []
    return compiled_score.normalise(compiled_score.scores(twin.cluster.nodes())).tolist()


# Filter -----------------------------------------------------------------------------------------


def test_the_zone_with_more_pods_is_too_full(twin: Twin) -> None:
    run(twin, a1=1)
    zones = spread(WEB, constraint("zone", app="web"))

    assert rejections(twin, zones) == [SKEWED, SKEWED, FITS, NO_LABEL]
    assert rejections(twin, spread(WEB, constraint("zone", skew=2, app="web"))) == [
        FITS, FITS, FITS, NO_LABEL,
    ]  # fmt: skip


def test_a_pod_that_does_not_match_itself_adds_nothing(twin: Twin) -> None:
    run(twin, a1=1)

    assert rejections(twin, spread(pod("p"), constraint("zone", app="web")))[:3] == [FITS] * 3


def test_soft_constraints_reject_nothing(twin: Twin) -> None:
    assert rejections(twin, spread(WEB, constraint("zone", soft=True, app="web"))) == []


def test_the_first_constraint_that_rejects_names_the_reason(twin: Twin) -> None:
    twin.node(node("a1").label("zone", "a").build())
    run(twin, a2=2)
    zones, hosts = constraint("zone", app="web"), constraint("host", app="web")

    assert rejections(twin, spread(WEB, zones, hosts))[0] == SKEWED
    assert rejections(twin, spread(WEB, hosts, zones))[0] == NO_LABEL


def test_pods_count_only_on_nodes_with_all_keys(twin: Twin) -> None:
    twin.node(node("a1").label("zone", "a").build())
    run(twin, a1=5)
    zones, hosts = constraint("zone", app="web"), constraint("host", app="web")

    assert rejections(twin, spread(WEB, zones, hosts))[1:3] == [FITS, FITS]


def test_terminating_pods_and_other_namespaces_do_not_count(twin: Twin) -> None:
    twin.place(WEB.uid("1").terminating().build(), "a1")
    twin.place(WEB.namespace("other").build(), "a1")

    assert rejections(twin, spread(WEB, constraint("zone", app="web")))[:3] == [FITS] * 3


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(None, [FITS, FITS, FITS], id="none counts nothing"),
        pytest.param(labels(), [FITS, FITS, FITS], id="an empty one counts 0"),
    ],
)
def test_selectors_that_count_nothing(twin: Twin, selector: object, want: list[str]) -> None:
    run(twin, a1=3)

    assert rejections(twin, spread(WEB, constraint("zone", label_selector=selector)))[:3] == want


def test_an_empty_selector_matches_the_pod_itself(twin: Twin) -> None:
    itself = constraint("zone", skew=0, label_selector=labels())

    assert rejections(twin, spread(WEB, itself))[:3] == [SKEWED] * 3


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values(twin: Twin) -> None:
    run(twin, a1=3)
    keys = {"app": "web", "match_label_keys": ["revision", "absent"]}

    newer = spread(WEB.label("revision", "2"), constraint("zone", **keys))
    assert rejections(twin, newer)[:3] == [FITS] * 3
    assert rejections(twin, spread(WEB, constraint("zone", **keys)))[:3] == [SKEWED, SKEWED, FITS]


def test_too_few_domains_make_the_least_count_0(twin: Twin) -> None:
    run(twin, a1=1, b1=1)

    assert (
        rejections(twin, spread(WEB, constraint("zone", min_domains=2, app="web")))[:3]
        == [FITS] * 3
    )
    assert (
        rejections(twin, spread(WEB, constraint("zone", min_domains=3, app="web")))[:3]
        == [SKEWED] * 3
    )


def test_nodes_that_the_pod_cannot_use_do_not_count(twin: Twin) -> None:
    run(twin, a1=1)
    here = WEB.selects(zone="a")

    assert rejections(twin, spread(here, constraint("zone", app="web")))[0] == FITS
    everywhere = constraint("zone", node_affinity_policy="Ignore", app="web")
    assert rejections(twin, spread(here, everywhere))[0] == SKEWED


def test_tainted_nodes_count_unless_the_policy_says_otherwise(twin: Twin) -> None:
    run(twin, a1=1)
    twin.node(node("b1").label("zone", "b").taint("own").build())

    assert rejections(twin, spread(WEB, constraint("zone", app="web")))[0] == SKEWED
    honor = constraint("zone", node_taints_policy="Honor", app="web")
    assert rejections(twin, spread(WEB, honor))[0] == FITS
    assert rejections(twin, spread(WEB.tolerates("own", operator="Exists"), honor))[0] == SKEWED


def test_a_new_value_on_a_node_that_does_not_count_is_evaluated_as_well(twin: Twin) -> None:
    verdicts = Verdicts()
    here = spread(WEB.selects(disk="ssd"), constraint("zone", app="web")).build()
    compiled_filter = PodTopologySpread().compile_filter(here, twin.cluster, verdicts)
    assert compiled_filter is not None
    in_attempt(compiled_filter)

    for number in range(20):
        twin.node(node(f"new-{number}").label("zone", f"new-{number}").build())
    in_attempt(compiled_filter)

    codes = compiled_filter.codes(twin.cluster.nodes()).tolist()
    assert reasons(codes, verdicts) == [FITS, FITS, FITS, NO_LABEL] + [FITS] * 20


def test_a_victim_that_terminates_already_lowers_the_count_once_more(twin: Twin) -> None:
    run(twin, a1=1, b1=0)
    twin.place(WEB.uid("terminating").terminating().build(), "a1")
    verdicts = Verdicts()
    both = spread(WEB, constraint("zone", min_domains=3, app="web")).build()
    compiled_filter = PodTopologySpread().compile_filter(both, twin.cluster, verdicts)
    assert compiled_filter is not None
    in_attempt(compiled_filter)
    there = twin.cluster.hypothetical_view(np.array([0]))

    found = [reasons(compiled_filter.codes(there).tolist(), verdicts)]
    there.change(np.array([twin.cluster.pods.slot("terminating")]), -1)
    found.append(reasons(compiled_filter.codes(there).tolist(), verdicts))

    assert found == [[SKEWED], [FITS]]


def test_a_selector_that_means_nothing_rejects_the_pod(twin: Twin) -> None:
    rule = PodTopologySpread()

    compiled_filter = rule.compile_filter(spread(WEB, NONSENSE).build(), twin.cluster, Verdicts())

    assert compiled_filter is not None
    said = compiled_filter.prepare(ATTEMPT)
    assert isinstance(said, Rejected)
    assert said.verdict.reasons == (
        "obtaining pod's hard topology spread constraints: "
        "'Nonsense' is not a valid label selector operator",
    )
    assert compiled_filter.codes(twin.cluster.nodes()).tolist() == [0] * 4
    soft = replace(NONSENSE, when_unsatisfiable="ScheduleAnyway")
    assert rule.compile_score(spread(WEB, soft).build(), twin.cluster) is None


def test_hard_defaults_hold_while_something_selects_the_pod(twin: Twin) -> None:
    run(twin, a1=1)
    verdicts = Verdicts()
    rule = PodTopologySpread([TopologySpreadConstraint(1, "zone", "DoNotSchedule")])
    compiled_filter = rule.compile_filter(WEB.build(), twin.cluster, verdicts)
    assert compiled_filter is not None
    seen = []

    for change in (
        lambda: None,
        lambda: twin.cluster.workloads.write(service("web", app="web")),
        lambda: twin.cluster.workloads.erase("Service", "default/web"),
    ):
        change()
        applied = in_attempt(compiled_filter)
        codes = applied.codes(NodeView(twin.cluster.columns, np.array([0])))
        seen.append((*reasons(codes.tolist(), verdicts), applied.reads))

    assert seen == [(FITS, Reads.NODE), (SKEWED, Reads.CLUSTER), (FITS, Reads.NODE)]


def test_own_constraints_replace_the_defaults_altogether(twin: Twin) -> None:
    run(twin, a1=1)
    twin.cluster.workloads.write(service("web", app="web"))
    defaults = [TopologySpreadConstraint(1, "zone", "DoNotSchedule")]

    assert rejections(twin, WEB, defaults)[0] == SKEWED
    assert rejections(twin, spread(WEB, constraint("host", soft=True, app="web")), defaults) == []


# Score ------------------------------------------------------------------------------------------


def test_the_less_full_zone_scores_best_and_nodes_without_a_zone_nothing(twin: Twin) -> None:
    run(twin, a1=2, b1=1)

    assert scored(twin, spread(WEB, constraint("zone", soft=True, app="web"))) == [33, 33, 100, 0]


def test_without_any_pods_all_nodes_score_the_same(twin: Twin) -> None:
    assert scored(twin, spread(WEB, constraint("zone", soft=True, app="web"))) == [100] * 3 + [0]


def test_hard_constraints_score_nothing(twin: Twin) -> None:
    assert scored(twin, spread(WEB, constraint("zone", app="web"))) == []


def test_hosts_count_their_own_pods_even_where_policies_say_otherwise() -> None:
    twin = Twin()
    for name in ("n1", "n2"):
        twin.node(node(name).label(HOSTNAME, name).label("alias", name).build())
    run(twin, n1=3)
    picky = WEB.selects(disk="ssd")

    assert scored(twin, spread(picky, constraint(HOSTNAME, soft=True, app="web"))) == [0, 100]
    assert scored(twin, spread(picky, constraint("alias", soft=True, app="web"))) == [100, 100]


def test_built_in_defaults_spread_what_a_service_selects() -> None:
    twin = Twin()
    for name, zone in (("n1", "a"), ("n2", "b")):
        twin.node(node(name).label(HOSTNAME, name).label(ZONE, zone).build())
    twin.node(node("bare").build())
    run(twin, n1=2)

    assert scored(twin, WEB) == []
    twin.cluster.workloads.write(service("web", app="web"))
    # ln(3 + 2) per pod and key, and maxSkew - 1 per key: 12, 6 and 0.
    assert scored(twin, WEB) == [0, 50, 100]


def test_configured_defaults_need_every_key() -> None:
    twin = Twin()
    twin.node(node("n1").label("rack", "r1").build())
    twin.node(node("bare").build())
    twin.cluster.workloads.write(service("web", app="web"))
    defaults = [TopologySpreadConstraint(1, "rack", "ScheduleAnyway")]

    assert scored(twin, WEB, defaults) == [100, 0]


def test_listens_to_the_events_of_upstream() -> None:
    listens = [(event.resource, event.action) for event in PodTopologySpread().events_to_register()]
    pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
    nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT

    assert listens == [(Resource.POD, pods), (Resource.NODE, nodes)]
