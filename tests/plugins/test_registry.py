"""Plugins of a profile, created by the names in a configuration."""

from tests.support.builders import OURS
from tests.support.cluster import profiles


def names(plugins) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in plugins]


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
