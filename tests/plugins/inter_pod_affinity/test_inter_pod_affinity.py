"""InterPodAffinity: near to some pods, away from others."""

import numpy as np
import pytest

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.plugin import PASS, SKIP, Reads, Rejected
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import PodAffinityTerm
from scheduler.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from scheduler.state.views.node_view import NodeView
from tests.support.affinities import Twin, away, labels, near, reasons, term
from tests.support.builders import PodBuilder, node, pod, requirement
from tests.support.plugin_checks import ATTEMPT, in_attempt

FITS = ""
NEAR = "node(s) didn't match pod affinity rules"
AWAY = "node(s) didn't match pod anti-affinity rules"
REFUSED = "node(s) didn't satisfy existing pods anti-affinity rules"
NONSENSE = PodAffinityTerm(labels(requirement("app", "Nonsense")), topology_key="zone")


@pytest.fixture
def twin() -> Twin:
    """Zones a (two nodes) and b, and a node without a zone."""
    made = Twin()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None)):
        named = node(name).label("host", name)
        made.node((named.label("zone", zone) if zone else named).build())
    return made


def rejections(twin: Twin, builder: PodBuilder, rule: InterPodAffinity | None = None) -> list[str]:
    """Return the reason against each node."""
    verdicts = Verdicts()
    compiled_filter = (rule or InterPodAffinity()).compile_filter(
        builder.build(), twin.cluster, verdicts
    )
    assert compiled_filter is not None
    codes = in_attempt(compiled_filter).codes(twin.cluster.nodes())
    return reasons(codes.tolist(), verdicts)


def scored(twin: Twin, builder: PodBuilder, **settings: int) -> list[int]:
    """Return the raw score of each node."""
    compiled_score = InterPodAffinity(**settings).compile_score(builder.build(), twin.cluster)
    assert compiled_score is not None
    if compiled_score.prepare(ATTEMPT) is SKIP:
        return []
    return compiled_score.scores(twin.cluster.nodes()).tolist()


# Required terms ---------------------------------------------------------------------------------


def test_affinity_needs_a_matching_pod_in_the_domain(twin: Twin) -> None:
    twin.place(pod("db").label("app", "db").build(), "a1")

    assert rejections(twin, near(pod("p"), term("zone", app="db"))) == [FITS, FITS, NEAR, NEAR]


def test_one_pod_has_to_match_all_affinity_terms(twin: Twin) -> None:
    twin.place(pod("one").label("app", "db").build(), "a1")
    twin.place(pod("two").label("tier", "back").build(), "a1")
    wanted = near(pod("p"), term("zone", app="db"), term("host", tier="back"))

    assert rejections(twin, wanted) == [NEAR] * 4

    twin.place(pod("both").label("app", "db").label("tier", "back").build(), "a2")
    assert rejections(twin, wanted) == [NEAR, FITS, NEAR, NEAR]


def test_the_first_pod_of_a_group_needs_only_the_keys(twin: Twin) -> None:
    first = near(pod("p").label("app", "web"), term("zone", app="web"))

    assert rejections(twin, first) == [FITS, FITS, FITS, NEAR]


def test_a_pod_on_a_node_without_any_key_does_not_start_the_group(twin: Twin) -> None:
    twin.place(pod("lost").label("app", "web").build(), "none")
    first = near(pod("p").label("app", "web"), term("zone", app="web"))

    assert rejections(twin, first) == [FITS, FITS, FITS, NEAR]
    assert rejections(twin, near(first, term("host", app="web"))) == [NEAR] * 4


def test_anti_affinity_rejects_the_whole_domain(twin: Twin) -> None:
    twin.place(pod("web").label("app", "web").build(), "a1")

    assert rejections(twin, away(pod("p"), term("zone", app="web"))) == [AWAY, AWAY, FITS, FITS]


def test_any_anti_affinity_term_is_enough(twin: Twin) -> None:
    twin.place(pod("web").label("app", "web").build(), "a1")
    twin.place(pod("db").label("app", "db").build(), "b1")
    shy = away(pod("p"), term("host", app="web"), term("zone", app="db"))

    assert rejections(twin, shy) == [AWAY, FITS, AWAY, FITS]


def test_running_pods_refuse_others_in_their_domain(twin: Twin) -> None:
    twin.place(away(pod("shy"), term("zone", app="web")).build(), "a1")

    assert rejections(twin, pod("p").label("app", "web")) == [REFUSED, REFUSED, FITS, FITS]
    assert rejections(twin, pod("p").label("app", "db")) == [FITS] * 4


def test_the_first_rule_that_rejects_names_the_reason(twin: Twin) -> None:
    twin.place(away(pod("shy").label("app", "web"), term("host", app="web")).build(), "a1")
    both = away(pod("p").label("app", "web"), term("zone", app="web"))

    assert rejections(twin, both) == [AWAY, AWAY, FITS, FITS]
    assert rejections(twin, near(both, term("zone", app="db"))) == [NEAR] * 4


def test_namespaces_are_found_by_their_labels_as_they_are(twin: Twin) -> None:
    twin.place(pod("db").namespace("blue").label("app", "db").build(), "a1")
    fan = near(pod("p"), term("zone", among=labels(team="t1"), app="db")).build()
    verdicts = Verdicts()
    compiled_filter = InterPodAffinity().compile_filter(fan, twin.cluster, verdicts)
    assert compiled_filter is not None
    seen = []

    for change in (
        lambda: None,
        lambda: twin.namespace("blue", team="t1"),
        lambda: twin.namespace("blue", team="t2"),
        lambda: twin.namespace("blue", team="t1"),
        lambda: twin.no_namespace("blue"),
    ):
        change()
        codes = in_attempt(compiled_filter).codes(NodeView(twin.cluster.columns, np.array([0])))
        seen += reasons(codes.tolist(), verdicts)

    assert seen == [NEAR, FITS, NEAR, FITS, NEAR]


def test_running_pods_look_at_the_labels_of_the_pods_namespace_as_they_are(twin: Twin) -> None:
    twin.place(away(pod("shy"), term("zone", among=labels(team="t1"), app="web")).build(), "a1")
    verdicts = Verdicts()
    web = pod("p").label("app", "web").build()
    compiled_filter = InterPodAffinity().compile_filter(web, twin.cluster, verdicts)
    bystander = InterPodAffinity().compile_filter(web, twin.cluster, verdicts)
    assert compiled_filter is not None
    assert bystander is not None
    in_attempt(bystander)
    seen = []

    for change in (
        lambda: None,
        lambda: twin.namespace("default", team="t1"),
        lambda: twin.namespace("other", team="t1"),
        lambda: twin.namespace("default", team="t2"),
    ):
        change()
        applied = in_attempt(compiled_filter)
        codes = applied.codes(NodeView(twin.cluster.columns, np.array([0])))
        seen.append((*reasons(codes.tolist(), verdicts), applied.reads))

    assert seen == [
        (FITS, Reads.NODE),
        (REFUSED, Reads.CLUSTER),
        (REFUSED, Reads.CLUSTER),
        (FITS, Reads.NODE),
    ]


def test_a_selector_that_means_nothing_rejects_the_pod(twin: Twin) -> None:
    verdicts = Verdicts()
    broken = away(pod("p"), NONSENSE, weight=1).build()

    compiled_filter = InterPodAffinity().compile_filter(broken, twin.cluster, verdicts)

    assert compiled_filter is not None
    said = compiled_filter.prepare(ATTEMPT)
    assert isinstance(said, Rejected)
    assert said.verdict.reasons == (
        "parsing pod: preferredAntiAffinityTerms: "
        "'Nonsense' is not a valid label selector operator",
    )
    assert not said.verdict.resolvable
    assert compiled_filter.codes(twin.cluster.nodes()).tolist() == [0] * 4


def test_terms_of_running_pods_that_mean_nothing_are_ignored(twin: Twin) -> None:
    twin.place(away(pod("odd"), NONSENSE, term("zone", app="web")).build(), "a1")

    assert rejections(twin, pod("p").label("app", "web")) == [FITS] * 4


def test_only_the_lack_of_affinity_cannot_be_cured_by_removing_pods(twin: Twin) -> None:
    verdicts = Verdicts()
    InterPodAffinity().compile_filter(pod("p").build(), twin.cluster, verdicts)

    found = {verdicts[code].reasons: verdicts[code].resolvable for code in (1, 2, 3)}

    assert found == {(NEAR,): False, (AWAY,): True, (REFUSED,): True}


# Nominated pods and victims ---------------------------------------------------------------------


def if_nominated(twin: Twin, builder: PodBuilder, nominated: PodBuilder) -> tuple[str, Reads]:
    """Return the reason on node a1 when a nominated pod counts as placed there."""
    twin.nominate(nominated.build(), "a1")
    verdicts = Verdicts()
    compiled_filter = InterPodAffinity().compile_filter(builder.build(), twin.cluster, verdicts)
    assert compiled_filter is not None
    applied = in_attempt(compiled_filter)
    there = twin.cluster.hypothetical_view(np.array([0]))
    there.change(np.array([twin.cluster.pods.slot(nominated.build().uid)]), +1)
    return reasons(applied.codes(there).tolist(), verdicts)[0], applied.reads


def test_nominated_pods_refuse_a_pod_only_when_the_rule_is_asked_at_all(twin: Twin) -> None:
    shy = away(pod("shy"), term("zone", app="web"))
    plain = pod("p").label("app", "web")

    assert if_nominated(twin, plain, shy) == (FITS, Reads.NODE)

    twin.place(away(pod("other"), term("zone", app="web")).build(), "b1")
    assert if_nominated(twin, plain, shy) == (REFUSED, Reads.CLUSTER)


def test_a_nominated_pod_can_satisfy_affinity(twin: Twin) -> None:
    web = pod("web").label("app", "web")

    assert if_nominated(twin, near(pod("p"), term("zone", app="web")), web)[0] == FITS


@pytest.mark.parametrize(
    ("others", "want"),
    [
        pytest.param([], FITS, id="then it is the first of its group"),
        pytest.param(["b1"], NEAR, id="not while another one is elsewhere"),
        pytest.param(["none"], FITS, id="one on a node without the key does not matter"),
    ],
)
def test_removing_the_last_matching_pod_of_a_zone_as_a_victim(
    twin: Twin, others: list[str], want: str
) -> None:
    web = pod("web").label("app", "web").build()
    twin.place(web, "a1")
    for name in others:
        twin.place(pod(f"web-{name}").label("app", "web").build(), name)
    verdicts = Verdicts()
    fan = near(pod("p").label("app", "web"), term("zone", app="web")).build()
    compiled_filter = InterPodAffinity().compile_filter(fan, twin.cluster, verdicts)
    assert compiled_filter is not None
    in_attempt(compiled_filter)
    there = twin.cluster.hypothetical_view(np.array([0]))
    assert reasons(compiled_filter.codes(there).tolist(), verdicts) == [FITS]

    there.change(np.array([twin.cluster.pods.slot(web.uid)]), -1)

    assert reasons(compiled_filter.codes(there).tolist(), verdicts) == [want]


def test_a_pod_more_can_help_only_where_affinity_is_required(twin: Twin) -> None:
    def monotone(builder: PodBuilder) -> bool:
        compiled_filter = InterPodAffinity().compile_filter(
            builder.build(), twin.cluster, Verdicts()
        )
        assert compiled_filter is not None
        return compiled_filter.monotone

    assert monotone(away(pod("p"), term("zone", app="web")))
    assert not monotone(near(pod("p"), term("zone", app="web")))


# Scores -----------------------------------------------------------------------------------------


def test_preferences_of_the_pod_add_up_by_topology(twin: Twin) -> None:
    twin.place(pod("db").label("app", "db").build(), "a1")
    twin.place(pod("web").label("app", "web").build(), "a2")
    made = near(pod("p"), term("zone", app="db"), weight=10)
    made = away(made, term("host", app="web"), weight=3)

    assert scored(twin, made) == [10, 7, 0, 0]


def test_preferences_of_running_pods_count_as_well(twin: Twin) -> None:
    twin.place(near(pod("fan"), term("zone", app="web"), weight=10).build(), "a1")
    twin.place(away(pod("shy"), term("host", app="web"), weight=30).build(), "b1")
    twin.place(near(pod("loyal"), term("zone", app="web")).build(), "b1")

    assert scored(twin, pod("p").label("app", "web")) == [10, 10, -29, 0]
    assert scored(twin, pod("p").label("app", "web"), hard_pod_affinity_weight=5) == [
        10,
        10,
        -25,
        0,
    ]
    assert scored(twin, pod("p").label("app", "web"), hard_pod_affinity_weight=0) == [
        10,
        10,
        -30,
        0,
    ]


def test_profiles_with_different_weights_do_not_share_their_counts(twin: Twin) -> None:
    twin.place(near(pod("loyal"), term("zone", app="web")).build(), "a1")
    web = pod("p").label("app", "web").build()
    found = []

    both = [InterPodAffinity(weight).compile_score(web, twin.cluster) for weight in (1, 5)]
    for compiled_score in both:
        assert compiled_score is not None
        compiled_score.prepare(ATTEMPT)
        found.append(int(compiled_score.scores(twin.cluster.nodes())[0]))

    assert found == [1, 5]


def test_a_pod_that_nothing_is_said_about_is_not_scored(twin: Twin) -> None:
    twin.place(near(pod("fan"), term("zone", app="web"), weight=10).build(), "a1")

    assert scored(twin, pod("p").label("app", "db")) == []


def test_pods_without_preferences_can_be_left_out(twin: Twin) -> None:
    twin.place(near(pod("fan"), term("zone", app="web"), weight=10).build(), "a1")
    rule = InterPodAffinity(ignore_preferred_of_running=True)
    plain = pod("p").label("app", "web")

    assert rule.compile_score(plain.build(), twin.cluster) is None
    fussy = away(plain, term("zone", app="db"), weight=1)
    compiled_score = rule.compile_score(fussy.build(), twin.cluster)
    assert compiled_score is not None
    assert compiled_score.prepare(ATTEMPT) is PASS
    assert compiled_score.scores(twin.cluster.nodes()).tolist() == [10, 10, 0, 0]


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param([0, 29, 100], [0, 28, 100], id="0.29 * 100 is a little less than 29"),
        pytest.param([-10, 0, 10], [0, 50, 100], id="from the least to the greatest"),
        pytest.param([7, 7], [0, 0], id="no difference, no score"),
        pytest.param([], [], id="no nodes"),
    ],
)
def test_scores_are_scaled_with_upstreams_arithmetic(
    twin: Twin, raw: list[int], want: list[int]
) -> None:
    compiled_score = InterPodAffinity().compile_score(pod("p").build(), twin.cluster)
    assert compiled_score is not None

    assert compiled_score.normalise(np.array(raw, dtype=np.int64)).tolist() == want


def test_listens_to_the_events_of_upstream() -> None:
    listens = [(event.resource, event.action) for event in InterPodAffinity().events_to_register()]

    assert listens == [
        (Resource.POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    ]
