"""The setting that names the release of kube-scheduler, over all profiles."""

from collections.abc import Callable

import pytest

from scheduler.config import load
from scheduler.config.args import ShapePoint, VolumeBindingArgs
from scheduler.config.settings import Settings
from scheduler.model.releases import V1_36, V1_37

Parse = Callable[..., Settings]


def named(*references: str | None) -> str:
    """Return profiles that name releases, or say nothing."""
    lines = ["profiles:"]
    for number, reference in enumerate(references):
        lines.append(f"- schedulerName: s{number}")
        if reference is not None:
            args = f"{{name: PreemptiveScheduler, args: {{reference: {reference}}}}}"
            lines.append(f"  pluginConfig: [{args}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("body", "server", "reference", "follows"),
    [
        pytest.param("", V1_36, V1_36, True, id="by default that of the server"),
        pytest.param("", V1_37, V1_37, True, id="by default that of a newer server"),
        pytest.param(named("auto"), V1_37, V1_37, True, id="auto"),
        pytest.param(named("null"), V1_37, V1_37, True, id="null"),
        pytest.param(named("v1.36"), V1_37, V1_36, False, id="the one that is named"),
        pytest.param(named(None, "v1.37"), V1_36, V1_37, False, id="one profile names it"),
        pytest.param(named("auto", "v1.37"), V1_36, V1_37, False, id="one profile follows"),
        pytest.param(named("v1.37", "v1.37"), V1_36, V1_37, False, id="the same twice"),
    ],
)
def test_the_release_that_counts(parse, body, server, reference, follows):
    found = parse(body, server=server)

    assert (found.reference, found.follows_server) == (reference, follows)


@pytest.mark.parametrize(
    ("forced", "wanted"),
    [
        pytest.param("v1.36", (V1_36, False), id="another release"),
        pytest.param("auto", (V1_36, True), id="that of the server"),
    ],
)
def test_a_flag_counts_more_than_the_file(parse, forced, wanted):
    found = parse(named("v1.37"), server=V1_36, reference=forced)

    assert (found.reference, found.follows_server) == wanted


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            named("v1.35"),
            'profiles[0].pluginConfig[0].args.reference: Unsupported value: "v1.35":'
            ' supported values: "auto", "v1.36", "v1.37"',
            id="a release that is not known",
        ),
        pytest.param(
            named("v1.37", "v1.36"),
            'profiles[1].pluginConfig[0].args.reference: Invalid value: "v1.36":'
            " must be the same for all profiles",
            id="two releases",
        ),
    ],
)
def test_a_wrong_release_is_an_error(problems, body, problem):
    assert problems(body) == [problem]


def test_a_written_configuration_keeps_its_release(parse):
    settings = parse(named("v1.37"), server=V1_36)

    assert load.parse(load.render(settings), source="written") == settings


@pytest.mark.parametrize(
    ("reference", "first"), [(V1_36, "NodeUnschedulable"), (V1_37, "NodeName")], ids=str
)
def test_default_plugins_run_in_the_order_of_the_release(parse, reference, first):
    (profile,) = parse("", server=reference).profiles

    assert profile.filter[0] == first
    assert set(profile.filter[:2]) == {"NodeUnschedulable", "NodeName"}


def shaped(shape: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {{shape: {shape}}}}}]}}]"


def test_the_shape_of_the_score_of_storage_belongs_to_v1_37(parse):
    body = shaped("[{utilization: 0, score: 1}, {utilization: 50, score: 9}]")

    (profile,) = parse(body, server=V1_37).profiles

    points = (ShapePoint(utilization=0, score=1), ShapePoint(utilization=50, score=9))
    assert profile.arguments(VolumeBindingArgs).shape == points


def test_the_shape_of_the_score_of_storage_is_checked(problems):
    body = shaped("[{utilization: 50, score: 11}]")

    assert problems(body, server=V1_37) == [
        "profiles[0].pluginConfig[0].args.shape[0].score: Invalid value: 11:"
        " not in valid range [0, 10]"
    ]


GROUPS = """
profiles:
- plugins: {podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}
"""


def test_plugins_for_pod_groups_belong_to_v1_37(parse, problems):
    assert parse(GROUPS, server=V1_37).profiles == parse("", server=V1_37).profiles
    assert problems(GROUPS, server=V1_36) == [
        'profiles[0].plugins.podGroupPostFilter: unknown field "podGroupPostFilter"'
    ]


def test_plugins_for_pod_groups_must_exist(problems):
    body = GROUPS.replace("DefaultPreemption", "Nothing")

    assert problems(body, server=V1_37) == [
        'profiles[0].plugins.podGroupPostFilter.enabled[0].name: plugin "Nothing" does not exist'
    ]


def test_a_written_configuration_that_names_no_release_suits_each(parse):
    text = load.render(parse("", server=V1_37))

    for server in (V1_36, V1_37):
        assert load.parse(text, source="written", server=server).reference is server
