"""The entrance: documents, files, flags, and writing back what was read."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import load
from scheduler.config.field_errors import ConfigError
from scheduler.config.load import DeprecatedFlags, LeaderElectionFlags
from scheduler.config.plugin_catalogue import Point, default_plugins
from scheduler.config.settings import ClientConnection, LeaderElection
from scheduler.model.releases import V1_37

_API = "kubescheduler.config.k8s.io/v1"
_KIND = "KubeSchedulerConfiguration"


def _problems(text: str) -> list[tuple[str, int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        load.parse(text, source="f.yaml")
    return [(each.path, each.line, each.message) for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "",
            [
                ("apiVersion", 1, f'Required value: must be "{_API}"'),
                ("kind", 1, f'Required value: must be "{_KIND}"'),
            ],
            id="an empty document",
        ),
        pytest.param(
            "- a\n",
            [
                ("apiVersion", 1, f'Required value: must be "{_API}"'),
                ("kind", 1, f'Required value: must be "{_KIND}"'),
            ],
            id="a list",
        ),
        pytest.param(
            f"\nkind: {_KIND}\nparallelism: 0\n",
            [("apiVersion", 1, f'Required value: must be "{_API}"')],
            id="no version; the rest cannot be validated",
        ),
        pytest.param(
            f"kind: {_KIND}\napiVersion: kubescheduler.config.k8s.io/v1beta3\n",
            [
                (
                    "apiVersion",
                    2,
                    f'Invalid value: "kubescheduler.config.k8s.io/v1beta3": must be "{_API}"',
                )
            ],
            id="an old version",
        ),
        pytest.param(
            f"apiVersion: {_API}\nkind: [x]\n",
            [("kind", 2, f'Invalid value: ["x"]: must be "{_KIND}"')],
            id="a list for the kind",
        ),
        pytest.param(
            f"apiVersion: {_API}\nkind: {_KIND}\na: 1\nparallelism: 3\nparallelism: 4\n",
            [
                ("a", 3, 'unknown field "a"'),
                ("parallelism", 5, 'duplicate field "parallelism", first set on line 4'),
            ],
            id="problems have lines",
        ),
        pytest.param(
            f'{{"apiVersion": "{_API}", "kind": "{_KIND}", "parallelism": 16.0}}',
            [("parallelism", 1, "Invalid type: expected a 32-bit integer, got 16.0")],
            id="decimals of JSON are no integers",
        ),
    ],
)
def test_says_what_is_wrong_with_a_document(text, want):
    assert _problems(text) == want


def test_flags_for_leader_election_win_over_the_file(parse):
    flags = LeaderElectionFlags(
        leader_elect=True,
        lease_duration_seconds=60.0,
        renew_deadline_seconds=40.0,
        retry_period_seconds=5.0,
        resource_lock="leases",
        resource_name="flag",
        resource_namespace="there",
    )

    found = parse("leaderElection: {leaderElect: false, resourceName: file}", leader_election=flags)

    assert found.leader_election == LeaderElection(
        leader_elect=True,
        lease_duration_seconds=60.0,
        renew_deadline_seconds=40.0,
        retry_period_seconds=5.0,
        resource_lock="leases",
        resource_name="flag",
        resource_namespace="there",
    )


def test_a_flag_may_repair_the_file(parse):
    flags = LeaderElectionFlags(lease_duration_seconds=15.0)

    found = parse("leaderElection: {leaseDuration: 1s}", leader_election=flags)

    assert found == load.defaults()


def test_flags_that_were_not_given_change_nothing():
    assert load.override(load.defaults()) == load.defaults()


def test_deprecated_flags_count_without_a_file():
    flags = DeprecatedFlags(
        kubeconfig="/etc/kubeconfig",
        qps=20.0,
        content_type="application/json",
        enable_profiling=False,
        enable_contention_profiling=False,
    )

    found = load.override(load.defaults(), deprecated=flags)

    assert (found.enable_profiling, found.enable_contention_profiling) == (False, False)
    assert found.client_connection == ClientConnection(
        kubeconfig="/etc/kubeconfig", content_type="application/json", qps=20.0, burst=100
    )


@pytest.mark.parametrize("qps", [0.0, -1.0])
def test_a_rate_of_nothing_means_no_limit(qps):
    found = load.override(load.defaults(), deprecated=DeprecatedFlags(qps=qps))

    assert found == load.defaults()


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(
            LeaderElectionFlags(lease_duration_seconds=0.0),
            [
                'leaderElection.leaseDuration: Invalid value: "0s": must be greater than zero',
                'leaderElection.leaseDuration: Invalid value: "0s": '
                "must be greater than `RenewDeadline`",
            ],
            id="a lease of no length",
        ),
        pytest.param(
            LeaderElectionFlags(resource_name="", resource_namespace=""),
            [
                "leaderElection.resourceName: Required value",
                "leaderElection.resourceNamespace: Required value",
            ],
            id="an empty name",
        ),
    ],
)
def test_flags_obey_the_rules(flags, want):
    with pytest.raises(ConfigError) as caught:
        load.override(load.defaults(), leader_election=flags)

    assert [str(each) for each in caught.value.problems] == want
    assert all(each.line is None for each in caught.value.problems)


_FULL = """
parallelism: 4
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
enableProfiling: false
delayCacheUntilActive: true
clientConnection: {kubeconfig: /k, acceptContentTypes: a, contentType: c, qps: 1.5, burst: 7}
leaderElection: {leaderElect: false, leaseDuration: 1m, resourceName: 'n', resourceNamespace: '1e3'}
profiles:
- schedulerName: a
  percentageOfNodesToScore: 5
  plugins:
    score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 7}]}
  pluginConfig:
  - {name: Foreign, args: {x: [1, null, {y: 2.5}]}}
  - name: Bare
  - {name: PreemptiveScheduler}
  - {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 0}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 2, preference: {matchFields: [{key: x, operator: In, values: ['0o7']}]}}
  - name: NodeResourcesFit
    args:
      ignoredResourceGroups: [g]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: t, whenUnsatisfiable: DoNotSchedule}]
  - {name: DynamicResources, args: {filterTimeout: 0s}}
- schedulerName: b
  plugins: {multiPoint: {enabled: [{name: Mine, weight: 3}]}}
extenders:
- urlPrefix: http://x
  ignorable: true
  tlsConfig: {insecure: true, certData: Y2VydA==}
  httpTimeout: 1500ms
- {urlPrefix: http://y, managedResources: [{name: a.b/c, ignoredByScheduler: true}]}
"""
_EXTRA = {"Mine": frozenset({"score", "permit"})}


@pytest.mark.parametrize(
    "body", [pytest.param("", id="the defaults"), pytest.param(_FULL, id="every field")]
)
def test_what_is_written_reads_back_the_same(parse, body):
    settings = parse(body, extra_plugins=_EXTRA)

    text = load.render(settings)

    assert load.parse(text, source="dump", extra_plugins=_EXTRA) == settings


def test_what_is_written_spells_out_every_point(parse):
    written = load.dump(parse(_FULL, extra_plugins=_EXTRA))

    assert list(written)[:2] == ["apiVersion", "kind"]
    assert isinstance(written["profiles"], list)
    for profile in written["profiles"]:
        assert isinstance(profile, dict)
        assert isinstance(profile["plugins"], dict)
        assert list(profile["plugins"]) == ["multiPoint", *Point]
        assert profile["plugins"]["multiPoint"] == {"disabled": [{"name": "*"}]}


_NAMES = st.sampled_from([name for name, _ in default_plugins(V1_37) if name != "PrioritySort"])
_MULTI_POINT = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.lists(
            st.fixed_dictionaries({"name": _NAMES}, optional={"weight": st.integers(0, 100)}),
            unique_by=lambda each: each["name"],
        ),
        "disabled": st.lists(st.fixed_dictionaries({"name": _NAMES})),
    },
)


@given(_MULTI_POINT)
def test_every_choice_of_plugins_reads_back_the_same(multi_point):
    bind = {"enabled": [{"name": "DefaultBinder"}]}
    profile = {"plugins": {"multiPoint": multi_point, "bind": bind}}
    document = {"apiVersion": _API, "kind": _KIND, "profiles": [profile]}
    settings = load.parse(yaml.safe_dump(document), source="generated")

    again = load.parse(load.render(settings), source="dump")

    assert again == settings
