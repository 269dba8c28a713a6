"""Plugins of a profile, created by the names in a configuration."""

from scheduler.config import load
from scheduler.framework.profile import PREEMPTION
from scheduler.model.releases import V1_36
from scheduler.plugins import registry
from tests.support.builders import OURS
from tests.support.cluster import profiles


def names(plugins) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in plugins]


def test_the_default_profile_has_its_plugins_in_upstreams_order():
    profile = profiles()[OURS]

    assert names(profile.pre_enqueue) == ["SchedulingGates", "DynamicResources"]
    assert names(profile.filters)[:6] == [
        "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
        "NodeResourcesFit",
    ]  # fmt: skip
    assert names(profile.filters).index("PodTopologySpread") < names(profile.filters).index(
        "InterPodAffinity"
    )
    assert names(profile.post_filters) == ["DynamicResources", PREEMPTION]
    weights = {plugin.name: weight for plugin, weight in profile.scores}
    assert weights["TaintToleration"] == 3
    assert weights["NodeAffinity"] == 2
    assert weights["ImageLocality"] == 1


def test_every_default_plugin_is_made_under_its_name():
    settings = load.defaults().profiles[0]

    for name in settings.enabled:
        if name in registry.PLUGINS:
            assert registry.PLUGINS[name](settings, V1_36).name == name


def test_plugins_can_be_switched_off_and_weighed():
    profile = profiles("""
        profiles:
        - plugins:
            postFilter: {disabled: [{name: DefaultPreemption}]}
            preFilter: {disabled: [{name: "*"}]}
            filter: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
            score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality, weight: 7}]}
    """)[OURS]

    assert names(profile.post_filters) == ["DynamicResources"]
    assert names(profile.filters) == ["NodeResourcesFit"]
    assert [(plugin.name, weight) for plugin, weight in profile.scores] == [("ImageLocality", 7)]


NO_FILTER = """
    profiles:
    - plugins:
        filter: {disabled: [{name: NodeAffinity}, {name: VolumeBinding}]}
"""


def test_what_is_off_at_filter_still_runs_at_pre_filter_in_its_place():
    filters = names(profiles(NO_FILTER)[OURS].filters)

    assert filters == names(profiles()[OURS].filters)


def test_each_profile_has_its_own_name():
    found = profiles("profiles: [{schedulerName: one}, {schedulerName: two}]")

    assert list(found) == ["one", "two"]
    assert found["two"].scheduler_name == "two"


def test_what_plugins_wait_for_is_registered_under_their_names():
    profile = profiles()[OURS]

    assert {"NodeResourcesFit", "NodeAffinity", "TaintToleration", "NodePorts"} <= {
        name for name, _ in profile.queueing_hints
    }


def test_the_arguments_of_a_plugin_reach_it():
    profile = profiles("""
        profiles:
        - pluginConfig:
          - name: NodeResourcesBalancedAllocation
            args: {resources: [{name: cpu, weight: 1}, {name: example.com/gpu, weight: 1}]}
    """)[OURS]
    (balanced,) = [
        plugin for plugin, _ in profile.scores if plugin.name == "NodeResourcesBalancedAllocation"
    ]

    assert balanced._balanced == ("cpu", "example.com/gpu")
