"""Merging with the defaults and expanding multiPoint, as kube-scheduler v1.36.3 does both."""

import pytest

from scheduler.config import load, plugin_catalogue
from scheduler.config.plugin_catalogue import Point
from scheduler.config.settings import ProfileSettings, Weighted
from scheduler.model.releases import REFERENCES, V1_36, V1_37

_USUAL = load.defaults().profiles[0]
_SORT_AND_BIND = "{name: PrioritySort}, {name: DefaultBinder}"

_FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
)


def _without(names: tuple[str, ...], *gone: str) -> tuple[str, ...]:
    return tuple(each for each in names if each not in gone)


def _only(*sets: str) -> str:
    """Return plugin sets without any default but the two plugins that every profile needs."""
    bare = f"multiPoint: {{disabled: [{{name: '*'}}], enabled: [{_SORT_AND_BIND}]}}"
    return f"{{plugins: {{{', '.join((bare, *sets))}}}}}"


@pytest.mark.parametrize(
    ("plugins", "point", "want"),
    [
        pytest.param(
            "multiPoint: {disabled: [{name: NodeName}]}",
            Point.FILTER,
            _without(_FILTERS, "NodeName"),
            id="a plugin disabled in multiPoint runs nowhere",
        ),
        pytest.param(
            "filter: {disabled: [{name: NodeName}, {name: VolumeZone}]}",
            Point.FILTER,
            _without(_FILTERS, "NodeName", "VolumeZone"),
            id="plugins disabled at a point do not run there",
        ),
        pytest.param(
            "filter: {disabled: [{name: TaintToleration}]}",
            Point.PRE_SCORE,
            _USUAL.pre_score,
            id="a plugin disabled at a point runs at the others",
        ),
        pytest.param(
            "filter: {disabled: [{name: '*'}]}", Point.FILTER, (), id="a star empties a point"
        ),
        pytest.param(
            "filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}, {name: NodePorts}]}",
            Point.FILTER,
            ("NodeName", "NodePorts"),
            id="with a star only what is enabled runs",
        ),
        pytest.param(
            "filter: {disabled: [{name: Unheard}]}",
            Point.FILTER,
            _FILTERS,
            id="disabling what does not exist changes nothing",
        ),
        pytest.param(
            "filter: {enabled: [{name: VolumeZone}, {name: NodeName}]}",
            Point.FILTER,
            ("VolumeZone", "NodeName", *_without(_FILTERS, "VolumeZone", "NodeName")),
            id="plugins of multiPoint that a point enables run first, in its order",
        ),
        pytest.param(
            "filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}",
            Point.FILTER,
            (*_without(_FILTERS, "NodeName"), "NodeName"),
            id="disabling and enabling at a point moves to the end",
        ),
        pytest.param(
            "multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}",
            Point.FILTER,
            (*_without(_FILTERS, "NodeName"), "NodeName"),
            id="disabling and enabling in multiPoint moves to the end",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: NodeName}]}",
            Point.FILTER,
            _FILTERS,
            id="enabling a default plugin in multiPoint keeps its place",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: GangScheduling}]}",
            Point.PERMIT,
            ("GangScheduling",),
            id="a further plugin runs wherever it can",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: GangScheduling}]}",
            Point.PRE_ENQUEUE,
            (*_USUAL.pre_enqueue, "GangScheduling"),
            id="a further plugin runs after the default ones",
        ),
        pytest.param(
            "multiPoint: {disabled: [{name: ImageLocality}]}, filter: {enabled: []}",
            Point.FILTER,
            _FILTERS,
            id="an empty list enables nothing",
        ),
        pytest.param(
            "filter: null, score: {enabled: null, disabled: null}",
            Point.FILTER,
            _FILTERS,
            id="null is an empty set",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}, "
            "score: {disabled: [{name: ImageLocality}]}",
            Point.SCORE,
            _without(_USUAL.plugins(Point.SCORE), "ImageLocality"),
            id="a plugin that runs nowhere may be enabled twice",
        ),
    ],
)
def test_a_point_runs(profile, plugins, point, want):
    assert profile(f"{{plugins: {{{plugins}}}}}").plugins(point) == want


def test_plugins_of_a_point_frame_those_of_multi_point(profile):
    bare = f"disabled: [{{name: '*'}}], enabled: [{_SORT_AND_BIND}, {{name: VolumeZone}}, "
    bare += "{name: NodePorts}]"
    filters = "enabled: [{name: NodeName}, {name: NodePorts}, {name: NodeAffinity}]"

    found = profile(f"{{plugins: {{multiPoint: {{{bare}}}, filter: {{{filters}}}}}}}")

    assert found.filter == ("NodePorts", "VolumeZone", "NodeName", "NodeAffinity")


def test_a_profile_may_name_every_plugin_at_its_point(profile):
    fields = """{plugins: {multiPoint: {disabled: [{name: "*"}]},
        queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}}}"""

    assert profile(fields) == ProfileSettings(
        scheduler_name="preemptive-scheduler",
        queue_sort=("PrioritySort",),
        bind=("DefaultBinder",),
    )


@pytest.mark.parametrize(
    ("sets", "want"),
    [
        pytest.param(
            "score: {enabled: [{name: NodeAffinity, weight: 7}, {name: ImageLocality}]}",
            (Weighted("NodeAffinity", 7), Weighted("ImageLocality", 1)),
            id="no weight is one",
        ),
        pytest.param(
            "score: {enabled: [{name: NodeAffinity, weight: 0}]}",
            (Weighted("NodeAffinity", 1),),
            id="zero is one",
        ),
        pytest.param(
            "score: {enabled: [{name: NodeAffinity, weight: -1}]}",
            (Weighted("NodeAffinity", -1),),
            id="a single negative weight passes",
        ),
        pytest.param(
            "score: {enabled: [{name: NodeAffinity, weight: 5}, {name: ImageLocality, weight: -5}, "
            "{name: TaintToleration, weight: 2147483647}]}",
            (
                Weighted("NodeAffinity", 5),
                Weighted("ImageLocality", -5),
                Weighted("TaintToleration", 2**31 - 1),
            ),
            id="a negative weight that the sum makes up for passes",
        ),
    ],
)
def test_weights(profile, sets, want):
    assert profile(_only(sets)).score == want


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(
            "multiPoint: {enabled: [{name: TaintToleration, weight: 9}]}",
            9,
            id="the weight in multiPoint replaces the default",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: TaintToleration}]}",
            1,
            id="no weight in multiPoint replaces the default too",
        ),
        pytest.param(
            "multiPoint: {enabled: [{name: TaintToleration, weight: 9}]}, "
            "score: {enabled: [{name: TaintToleration, weight: 4}]}",
            4,
            id="the weight at the point wins over the one in multiPoint",
        ),
        pytest.param(
            "filter: {enabled: [{name: TaintToleration, weight: 9}]}",
            3,
            id="the weight at another point means nothing",
        ),
    ],
)
def test_the_weight_of_a_plugin_comes_from(profile, plugins, want):
    assert dict(profile(f"{{plugins: {{{plugins}}}}}").score)["TaintToleration"] == want


def test_placements_have_weights_too(profile):
    plugins = "placementScore: {enabled: [{name: PodGroupPodsCount, weight: 3}]}"

    assert profile(f"{{plugins: {{{plugins}}}}}").placement_score == (
        Weighted("NodeResourcesFit", 1),
        Weighted("PodGroupPodsCount", 3),
    )


_SETS = "profiles[0].plugins"


_EXTRA = {
    "Coscheduling": frozenset({"permit", "preFilter", "score"}),
    "Generator": frozenset({"placementGenerate"}),
    "OtherSort": frozenset({Point.QUEUE_SORT}),
}


def test_further_plugins_take_part(profile):
    plugins = "multiPoint: {enabled: [{name: Coscheduling, weight: 2}]}"

    found = profile(f"{{plugins: {{{plugins}}}}}", extra_plugins=_EXTRA)

    assert (found.permit, found.pre_filter[-1], found.score[-1]) == (
        ("Coscheduling",),
        "Coscheduling",
        Weighted("Coscheduling", 2),
    )


def test_two_plugins_cannot_sort(problems):
    body = "profiles: [{plugins: {multiPoint: {enabled: [{name: OtherSort}]}}}]"

    assert problems(body, extra_plugins=_EXTRA) == [
        f"{_SETS}.queueSort: only one queue sort plugin required "
        'for profile with scheduler name "preemptive-scheduler", but got 2'
    ]


def test_two_plugins_cannot_generate_placements(problems):
    body = """profiles: [{plugins: {placementGenerate: {enabled: [
        {name: Generator}, {name: TopologyPlacementGenerator}]}}}]"""

    assert problems(body, extra_plugins=_EXTRA) == [
        f"{_SETS}.placementGenerate: at most one placement generate plugin is allowed "
        'for profile with scheduler name "preemptive-scheduler"'
    ]


def test_a_further_plugin_cannot_take_a_name():
    with pytest.raises(ValueError, match="a plugin named NodeName already exists"):
        plugin_catalogue.merged({"NodeName": frozenset({"filter"})})


def test_a_further_plugin_cannot_invent_a_point():
    with pytest.raises(ValueError, match="'filters' is not a valid Point"):
        plugin_catalogue.merged({"Mine": frozenset({"filters"})})


def test_every_default_plugin_exists():
    for reference in REFERENCES.values():
        names = {name for name, _ in plugin_catalogue.default_plugins(reference)}
        assert names <= plugin_catalogue.IN_TREE.keys()


@pytest.mark.parametrize("name", ["NodeName", "NodeUnschedulable", "TaintToleration"])
def test_plugins_for_nodes_have_a_prefilter_as_of_v1_37(name, profile, problems):
    fields = f"{{plugins: {{preFilter: {{enabled: [{{name: {name}}}]}}}}}}"

    assert profile(fields, server=V1_37).pre_filter[0] == name
    assert problems(f"profiles: [{fields}]", server=V1_36) == [
        f'{_SETS}.preFilter.enabled[0]: plugin "{name}" does not extend PreFilterPlugin plugin'
    ]
