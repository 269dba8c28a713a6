"""Profiles among each other, and what extenders do to them."""

from scheduler.config.args import NodeResourcesFitArgs

_TAKES_GPU = """
extenders:
- managedResources: [{name: a.b/gpu, ignoredByScheduler: true}, {name: a.b/other}]
"""


def test_profiles_keep_their_names_and_shares(parse):
    body = "profiles: [{schedulerName: a, percentageOfNodesToScore: 5}, {schedulerName: b}]"

    found = parse(body)

    shares = [(each.scheduler_name, each.percentage_of_nodes_to_score) for each in found.profiles]
    assert shares == [("a", 5), ("b", None)]
    assert found.profile("b") is found.profiles[1]
    assert found.profile("c") is None


def test_extenders_replace_what_the_fit_filter_ignores(parse):
    mine = "[{name: NodeResourcesFit, args: {ignoredResources: ['not a name']}}]"

    found = parse(f"profiles: [{{pluginConfig: {mine}}}]{_TAKES_GPU}")

    fit = found.profiles[0].arguments(NodeResourcesFitArgs)
    assert fit == NodeResourcesFitArgs(ignored_resources=("a.b/gpu",))


def test_extenders_cannot_take_a_resource_from_a_filter_that_is_not_there(problems):
    off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"

    assert problems(f"profiles: [{{{off}}}]{_TAKES_GPU}") == [
        "profiles[0]: can't find NodeResourcesFitArgs in plugin config"
    ]


def test_all_problems_are_named_at_once_in_file_order(problems):
    body = """\
        paralelism: 3
        parallelism: 0
        leaderElection: {leaseDuration: 5s, renewDeadline: 2x}
        profiles:
        - schedulerName: a
          percentageOfNodesToScore: 101
          pluginConfig:
          - name: InterPodAffinity
            args: {hardPodAffinityWeight: 200, foo: 1}
          - name: InterPodAffinity
          plugins:
            score:
              enabled:
              - name: NodeNam
              - name: PrioritySort
        - schedulerName: a
        extenders:
        - prioritizeVerb: p
        """

    assert problems(body) == [
        'paralelism: unknown field "paralelism", did you mean "parallelism"?',
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        'leaderElection.renewDeadline: Invalid value: unknown unit "x" in duration "2x"',
        "profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        'profiles[0].pluginConfig[0].args.foo: unknown field "foo"',
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: "
        "Invalid value: 200: not in valid range [0, 100]",
        'profiles[0].pluginConfig[1]: Duplicate value: "InterPodAffinity"',
        "profiles[0].plugins.score.enabled[0].name: "
        'plugin "NodeNam" does not exist, did you mean "NodeName"?',
        'profiles[0].plugins.score.enabled[1]: plugin "PrioritySort" does not extend '
        "ScorePlugin plugin",
        'profiles[1].schedulerName: Duplicate value: "a": first set by profiles[0].schedulerName',
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ]
