"""Which events requeue a pod that InterPodAffinity rejected."""

from collections.abc import Mapping

import pytest

from scheduler.model.api.objects import Node, Pod, PodAffinityTerm
from scheduler.model.releases import V1_36, V1_37
from scheduler.plugins.inter_pod_affinity import hints
from tests.support.affinities import away, labels, near, term
from tests.support.builders import PodBuilder, node, pod, requirement

NONSENSE = PodAffinityTerm(labels(requirement("app", "Nonsense")), topology_key="zone")
WAITING = away(near(pod("waiting"), term("zone", app="db")), term("host", app="web"))
TWICE = away(
    near(pod("waiting"), term("zone", app="db"), term("zone", tier="t")),
    term("host", app="w"),
    term("host", tier="t"),
)
DB = pod("db").label("app", "db")
WEB = pod("web").label("app", "web")
SHY = away(pod("shy"), term("zone", app="x"))


@pytest.mark.parametrize(
    ("waiting", "old", "new", "want"),
    [
        pytest.param(WAITING, WAITING, WAITING.label("a", "b"), True, id="its own labels changed"),
        pytest.param(WAITING, None, DB.on("n"), True, id="a wanted pod came"),
        pytest.param(WAITING, None, DB, False, id="a wanted pod that is on no node"),
        pytest.param(WAITING, None, DB.nominated("n"), True, id="a wanted pod was nominated"),
        pytest.param(WAITING, None, WEB.on("n"), False, id="another pod came"),
        pytest.param(WAITING, WEB.on("n"), None, True, id="an unwanted pod went"),
        pytest.param(WAITING, DB.on("n"), None, False, id="a wanted pod went"),
        pytest.param(WAITING, WEB.on("n"), WEB.on("n").label("app", "db"), True, id="became one"),
        pytest.param(WAITING, DB.on("n"), DB.on("n").label("x"), False, id="stayed one"),
        pytest.param(WAITING, WEB.on("n"), WEB.on("n").label("app", "x"), True, id="not unwanted"),
        pytest.param(WAITING, WEB.on("n"), WEB.on("n").label("x"), False, id="stayed unwanted"),
        pytest.param(pod("w").label("app", "x"), SHY.on("n"), None, True, id="one that refused it"),
        pytest.param(pod("w").label("app", "y"), SHY.on("n"), None, False, id="refused others"),
        pytest.param(TWICE, None, DB.on("n"), False, id="matches not all affinity terms"),
        pytest.param(
            TWICE, pod("o").label("app", "w").on("n"), None, False,
            id="matches not all anti-affinity terms, though one would do",
        ),
        pytest.param(
            near(pod("w"), term("zone", among=labels(team="t"), app="db")),
            None, DB.on("n"), False, id="labels of namespaces are not asked",
        ),
        pytest.param(near(pod("w"), NONSENSE), None, WEB.on("n"), True, id="unreadable"),
    ],
)  # fmt: skip
def test_which_pods_wake_a_pod(
    waiting: PodBuilder, old: PodBuilder | None, new: PodBuilder | None, want: bool
) -> None:
    def built(each: PodBuilder | None) -> Pod | None:
        return each.build() if each else None

    assert hints.after_pod(V1_36, waiting.build(), built(old), built(new)) is want


ANY = pod("o").label("app", "w").on("n")
THEIRS = away(pod("shy"), term("zone", app="x"), term("zone", tier="t")).on("n")


@pytest.mark.parametrize(
    ("waiting", "old", "new", "want"),
    [
        pytest.param(TWICE, ANY, None, True, id="a pod went that one of its terms repelled"),
        pytest.param(TWICE, ANY, ANY.label("app", "y"), True, id="no term repels it any more"),
        pytest.param(TWICE, ANY, ANY.label("tier", "t"), False, id="another term repels it, too"),
        pytest.param(
            pod("w").label("app", "x"), THEIRS, None, True, id="one of the terms of a pod that went"
        ),
        pytest.param(pod("w").label("app", "y"), THEIRS, None, False, id="none of its terms"),
        pytest.param(TWICE, None, DB.on("n"), False, id="affinity needs all terms"),
    ],
)
def test_in_v1_37_one_anti_affinity_term_is_enough(
    waiting: PodBuilder, old: PodBuilder | None, new: PodBuilder | None, want: bool
) -> None:
    states = [each.build() if each else None for each in (old, new)]

    assert hints.after_pod(V1_37, waiting.build(), *states) is want


def labelled(given: Mapping[str, str] | None) -> Node | None:
    if given is None:
        return None
    made = node("n")
    for key, value in given.items():
        made = made.label(key, value)
    return made.build()


@pytest.mark.parametrize(
    ("waiting", "old", "new", "want"),
    [
        pytest.param("near", None, {"zone": "a"}, True, id="a node with the key"),
        pytest.param("near", None, {}, False, id="a node without the key"),
        pytest.param("near", {}, {"zone": ""}, True, id="the key appeared"),
        pytest.param("near", {"zone": "a"}, {"zone": "b"}, True, id="another value"),
        pytest.param("near", {"zone": "a"}, {"zone": "a", "x": "y"}, False, id="the same value"),
        pytest.param("near", {"zone": "a"}, {}, True, id="the key vanished: others may repel it"),
        pytest.param("away", None, {}, True, id="any node for anti-affinity"),
        pytest.param("away", {"zone": ""}, {}, True, id="the key vanished for anti-affinity"),
        pytest.param("away", {"zone": "a"}, {"zone": "b"}, True, id="another value for both"),
        pytest.param("away", {}, {"zone": "a"}, False, id="the key appeared for anti-affinity"),
        pytest.param("none", None, {"zone": "a"}, True, id="a new node, and no terms"),
        pytest.param("none", {"zone": "a"}, {"zone": "b"}, True, id="another value, and no terms"),
        pytest.param("none", {"zone": "a"}, {}, True, id="the key vanished, and no terms"),
        pytest.param("none", {}, {"zone": "a"}, False, id="the key appeared, and no terms"),
        pytest.param("nonsense", {}, {"x": "y"}, True, id="unreadable"),
    ],
)
def test_which_nodes_wake_a_pod(
    waiting: str, old: Mapping[str, str] | None, new: Mapping[str, str], want: bool
) -> None:
    made = {
        "near": near(pod("w"), term("zone", app="x")),
        "away": away(pod("w"), term("zone", app="x")),
        "none": pod("w"),
        "nonsense": near(pod("w"), NONSENSE),
    }[waiting]
    now = labelled(new)
    assert now is not None

    assert hints.after_node(made.build(), labelled(old), now) is want
