"""InterPodAffinity, where no manifest shows it; tests/scenarios/affinity.yaml has the rest."""

from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import PodAffinityTerm
from scheduler.model.releases import V1_36
from scheduler.plugins.inter_pod_affinity import hints
from scheduler.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from tests.support.affinities import away, labels, near, term
from tests.support.builders import PodBuilder, node, pod, requirement
from tests.support.plugin_checks import ATTEMPT, rejected_as_a_whole, rejections, state_of

PLUGIN = InterPodAffinity()
NODE = node("n1").label("zone", "a")
NONSENSE = PodAffinityTerm(labels(requirement("app", "Nonsense")), topology_key="zone")
WEB = pod("p").label("app", "web")


def test_a_selector_that_means_nothing_rejects_the_pod():
    broken = away(pod("p"), NONSENSE, weight=1)

    reason = (
        "parsing pod: preferredAntiAffinityTerms: 'Nonsense' is not a valid label selector operator"
    )
    assert rejected_as_a_whole(PLUGIN, broken, state_of(NODE)) == Verdict(
        "InterPodAffinity", (reason,), resolvable=False
    )


def test_terms_of_running_pods_that_mean_nothing_are_ignored():
    odd = away(pod("odd"), NONSENSE, term("zone", app="web")).on("n1")

    assert rejections(PLUGIN, WEB, state_of(NODE, odd)) == {}


def test_profiles_with_different_weights_do_not_share_their_counts():
    state = state_of(NODE, near(pod("loyal"), term("zone", app="web")).on("n1"))

    def raw(weight: int) -> int:
        compiled_score = InterPodAffinity(weight).compile_score(WEB.build(), state)
        assert compiled_score is not None
        compiled_score.prepare(ATTEMPT)
        return int(compiled_score.scores(state.nodes())[0])

    assert [raw(weight) for weight in (1, 5)] == [1, 5]


def test_a_pod_more_can_help_only_where_affinity_is_required():
    def monotone(wanted: PodBuilder) -> bool:
        compiled_filter = PLUGIN.compile_filter(wanted.build(), state_of(NODE), Verdicts())
        assert compiled_filter is not None
        return compiled_filter.monotone

    assert monotone(away(pod("p"), term("zone", app="web")))
    assert not monotone(near(pod("p"), term("zone", app="web")))


def test_a_nominated_pod_and_a_selector_that_means_nothing_wake():
    db = pod("db").label("app", "db")
    waiting, broken = near(pod("p"), term("zone", app="db")), near(pod("p"), NONSENSE)

    assert hints.after_pod(V1_36, waiting.build(), None, db.nominated("n").build())
    assert not hints.after_pod(V1_36, waiting.build(), None, db.build())
    assert hints.after_pod(V1_36, broken.build(), None, WEB.on("n").build())
    assert hints.after_node(broken.build(), node("n").build(), node("n").label("x", "y").build())
