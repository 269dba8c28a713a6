"""Merging with the defaults and expanding multiPoint, as kube-scheduler v1.36.3 does both."""

import pytest
import yaml

from scheduler.config import load, plugin_catalogue
from scheduler.config.plugin_catalogue import Point
from scheduler.config.settings import ProfileSettings, Weighted
from scheduler.model.releases import REFERENCES, V1_36, V1_37
from tests.support.refusals import cases

_USUAL = load.defaults().profiles[0]
_SORT_AND_BIND = "{name: PrioritySort}, {name: DefaultBinder}"


def _only(*sets: str) -> str:
    """Return plugin sets without any default but the two plugins that every profile needs."""
    bare = f"multiPoint: {{disabled: [{{name: '*'}}], enabled: [{_SORT_AND_BIND}]}}"
    return f"{{plugins: {{{', '.join((bare, *sets))}}}}}"


#: Plugin sets, and what runs at a point; `*` stands for the defaults that the line does not name,
#: and `-` comes before defaults that do not run.
POINTS = """
multiPoint: {disabled: [{name: NodeName}]}  # a plugin disabled in multiPoint runs nowhere
    filter: * -NodeName
filter: {disabled: [{name: NodeName}, {name: VolumeZone}]}  # plugins disabled at a point
    filter: * -NodeName -VolumeZone
filter: {disabled: [{name: TaintToleration}]}  # a plugin disabled at a point runs at the others
    preScore: *
filter: {disabled: [{name: '*'}]}  # a star empties a point
    filter:
filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}, {name: NodePorts}]}
    filter: NodeName NodePorts
filter: {disabled: [{name: Unheard}]}  # disabling a plugin that does not exist changes nothing
    filter: *
filter: {enabled: [{name: VolumeZone}, {name: NodeName}]}  # enabled ones run first, in order
    filter: VolumeZone NodeName *
filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}  # both move to the end
    filter: * NodeName
multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}  # so in multiPoint
    filter: * NodeName
multiPoint: {enabled: [{name: NodeName}]}  # enabling a default plugin keeps its place
    filter: *
multiPoint: {enabled: [{name: GangScheduling}]}  # a further plugin runs after the default ones
    permit: GangScheduling
    preEnqueue: * GangScheduling
multiPoint: {disabled: [{name: ImageLocality}]}, filter: {enabled: []}  # an empty list
    filter: *
filter: null, score: {enabled: null, disabled: null}  # null is an empty set
    filter: *
multiPoint: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}, score: {disabled:
        [{name: ImageLocality}]}  # a plugin that runs nowhere may be enabled twice
    score: * -ImageLocality
"""


@pytest.mark.parametrize(("plugins", "want"), cases(POINTS).items())
def test_a_point_runs(profile, plugins, want):
    found = profile(f"{{plugins: {{{plugins.partition(' #')[0]}}}}}")

    for line in want:
        point, _, words = line.partition(":")
        named = [each.lstrip("-") for each in words.split()]
        rest = [each for each in _USUAL.plugins(Point(point)) if each not in named]
        runs = [each for each in words.split() if not each.startswith("-")]
        expected = [name for each in runs for name in (rest if each == "*" else [each])]
        assert found.plugins(Point(point)) == tuple(expected)


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


#: Plugin sets and the weights of the plugins that score.
WEIGHTS = """
score: {enabled: [{name: NodeAffinity, weight: 7}, {name: ImageLocality}]}  # no weight is one
    {NodeAffinity: 7, ImageLocality: 1}
score: {enabled: [{name: NodeAffinity, weight: 0}]}  # zero is one
    {NodeAffinity: 1}
score: {enabled: [{name: NodeAffinity, weight: -1}]}  # a single negative weight passes
    {NodeAffinity: -1}
score: {enabled: [{name: NodeAffinity, weight: 5}, {name: ImageLocality, weight: -5}, {name:
        TaintToleration, weight: 2147483647}]}  # so does one that the sum makes up for
    {NodeAffinity: 5, ImageLocality: -5, TaintToleration: 2147483647}
"""


@pytest.mark.parametrize(("sets", "want"), cases(WEIGHTS).items())
def test_weights(profile, sets, want):
    assert dict(profile(_only(sets.partition(" #")[0])).score) == yaml.safe_load(want[0])


@pytest.mark.parametrize(
    ("multi_point", "score", "want"),
    [("9", "", 9), ("null", "", 1), ("9", "score", 4), ("", "filter", 3)],
    ids=["of multiPoint", "none in multiPoint", "of the point", "at another point"],
)
def test_the_weight_of_a_plugin_comes_from(profile, multi_point, score, want):
    sets = [f"multiPoint: {{enabled: [{{name: TaintToleration, weight: {multi_point}}}]}}"]
    more = [f"{score}: {{enabled: [{{name: TaintToleration, weight: 4}}]}}"]

    found = profile(f"{{plugins: {{{', '.join(sets * bool(multi_point) + more * bool(score))}}}}}")

    assert dict(found.score)["TaintToleration"] == want


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
