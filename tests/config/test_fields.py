"""Every field outside of profiles arrives, and values of a wrong type are named."""

from collections.abc import Callable

import pytest

from scheduler.config.settings import (
    ClientConnection,
    Extender,
    ExtenderTLS,
    LeaderElection,
    ManagedResource,
    Settings,
)


@pytest.mark.parametrize(
    ("body", "attribute", "want"),
    [
        pytest.param("parallelism: 4", "parallelism", 4, id="parallelism"),
        pytest.param(
            "percentageOfNodesToScore: 50", "percentage_of_nodes_to_score", 50, id="share"
        ),
        pytest.param("podInitialBackoffSeconds: 3", "pod_initial_backoff_seconds", 3, id="first"),
        pytest.param("podMaxBackoffSeconds: 30", "pod_max_backoff_seconds", 30, id="longest"),
        pytest.param("enableProfiling: false", "enable_profiling", False, id="profiling"),
        pytest.param(
            "enableContentionProfiling: false",
            "enable_contention_profiling",
            False,
            id="contention",
        ),
        pytest.param("delayCacheUntilActive: true", "delay_cache_until_active", True, id="delay"),
        pytest.param(
            "enableProfiling: false",
            "enable_contention_profiling",
            False,
            id="contention profiling follows profiling",
        ),
        pytest.param(
            "{enableProfiling: false, enableContentionProfiling: true}"[1:-1].replace(", ", "\n"),
            "enable_contention_profiling",
            True,
            id="contention profiling on its own",
        ),
        pytest.param(
            """
            clientConnection:
              kubeconfig: /etc/kubeconfig
              acceptContentTypes: application/json
              contentType: application/json
              qps: 12.5
              burst: 20
            """,
            "client_connection",
            ClientConnection(
                kubeconfig="/etc/kubeconfig",
                accept_content_types="application/json",
                content_type="application/json",
                qps=12.5,
                burst=20,
            ),
            id="the connection in full",
        ),
        pytest.param(
            """
            leaderElection:
              leaderElect: false
              leaseDuration: 1m30s
              renewDeadline: 1m
              retryPeriod: 500ms
              resourceLock: leases
              resourceName: mine
              resourceNamespace: here
            """,
            "leader_election",
            LeaderElection(
                leader_elect=False,
                lease_duration_seconds=90.0,
                renew_deadline_seconds=60.0,
                retry_period_seconds=0.5,
                resource_lock="leases",
                resource_name="mine",
                resource_namespace="here",
            ),
            id="leader election in full",
        ),
        pytest.param(
            """
            leaderElection:
              leaseDuration: 0s
              renewDeadline: "0"
              retryPeriod: 0ms
              resourceLock: ""
              resourceName: ""
              resourceNamespace: ""
            """,
            "leader_election",
            LeaderElection(),
            id="zero values in leader election mean the defaults",
        ),
        pytest.param(
            """
            extenders:
            - urlPrefix: https://extender/v1/
              filterVerb: filter
              preemptVerb: preempt
              prioritizeVerb: prioritize
              weight: 7
              bindVerb: bind
              enableHTTPS: true
              tlsConfig:
                serverName: extender
                certFile: /cert
                keyFile: /key
                caFile: /ca
                certData: Y2VydA==
                keyData: a2V5
                caData: Y2E=
              httpTimeout: 100ms
              nodeCacheCapable: true
              managedResources:
              - name: example.com/fpga
              ignorable: true
            """,
            "extenders",
            (
                Extender(
                    url_prefix="https://extender/v1/",
                    filter_verb="filter",
                    preempt_verb="preempt",
                    prioritize_verb="prioritize",
                    weight=7,
                    bind_verb="bind",
                    enable_https=True,
                    tls=ExtenderTLS(
                        insecure=False,
                        server_name="extender",
                        cert_file="/cert",
                        key_file="/key",
                        ca_file="/ca",
                        cert_data=b"cert",
                        key_data=b"key",
                        ca_data=b"ca",
                    ),
                    http_timeout_seconds=0.1,
                    node_cache_capable=True,
                    managed_resources=(ManagedResource(name="example.com/fpga"),),
                    ignorable=True,
                ),
            ),
            id="an extender in full",
        ),
        pytest.param("extenders: [{}]", "extenders", (Extender(),), id="an empty extender"),
        pytest.param("extenders: [null]", "extenders", (Extender(),), id="an extender of null"),
    ],
)
def test_reads_every_field(parse: Callable[..., Settings], body: str, attribute: str, want: object):
    assert getattr(parse(body), attribute) == want


@pytest.mark.parametrize(
    ("fields", "want_qps", "want_burst"),
    [
        pytest.param("", None, None, id="nothing means no limit"),
        pytest.param("qps: 0, burst: 0", None, None, id="zeros mean no limit"),
        pytest.param("qps: -1", None, None, id="a negative rate means no limit"),
        pytest.param("qps: 50", 50.0, 100, id="a rate alone has the burst of kube-scheduler"),
        pytest.param("qps: 50, burst: 10", 50.0, 10, id="both"),
    ],
)
def test_limits_the_client_only_when_configured(
    parse: Callable[..., Settings], fields: str, want_qps: float | None, want_burst: int | None
):
    client = parse(f"clientConnection: {{{fields}}}").client_connection

    assert (client.qps, client.burst) == (want_qps, want_burst)


def test_ignorable_extenders_are_called_last(parse: Callable[..., Settings]):
    body = """
        extenders:
        - {urlPrefix: a, ignorable: true}
        - {urlPrefix: b}
        - {urlPrefix: c, ignorable: true}
        - {urlPrefix: d}
        """

    assert [each.url_prefix for each in parse(body).extenders] == ["b", "d", "a", "c"]


def test_a_ca_may_be_a_file_or_data():
    assert not ExtenderTLS().has_ca
    assert ExtenderTLS(ca_file="/ca").has_ca
    assert ExtenderTLS(ca_data=b"ca").has_ca


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            "parallelism: '16'",
            'parallelism: Invalid type: expected a 32-bit integer, got "16"',
            id="text for an integer",
        ),
        pytest.param(
            "parallelism: 16.5",
            "parallelism: Invalid type: expected a 32-bit integer, got 16.5",
            id="a fraction for an integer",
        ),
        pytest.param(
            "parallelism: true",
            "parallelism: Invalid type: expected a 32-bit integer, got true",
            id="a boolean for an integer",
        ),
        pytest.param(
            "parallelism: [16]",
            "parallelism: Invalid type: expected a 32-bit integer, got a list",
            id="a list for an integer",
        ),
        pytest.param(
            "parallelism: 2147483648",
            "parallelism: Invalid type: expected a 32-bit integer, got 2147483648",
            id="an integer beyond 32 bits",
        ),
        pytest.param(
            "podMaxBackoffSeconds: 9223372036854775808",
            "podMaxBackoffSeconds: Invalid type: expected a 64-bit integer, "
            "got 9223372036854775808",
            id="an integer beyond 64 bits",
        ),
        pytest.param(
            "enableProfiling: 1",
            "enableProfiling: Invalid type: expected a boolean, got 1",
            id="a number for a boolean",
        ),
        pytest.param(
            "clientConnection: {kubeconfig: 5}",
            "clientConnection.kubeconfig: Invalid type: expected a string, got 5",
            id="a number for text",
        ),
        pytest.param(
            "clientConnection: {qps: fast}",
            'clientConnection.qps: Invalid type: expected a 32-bit number, got "fast"',
            id="text for a number",
        ),
        pytest.param(
            "clientConnection: {qps: 4.0e+38}",
            "clientConnection.qps: Invalid type: expected a 32-bit number, got 4e+38",
            id="a number beyond 32 bits",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15}",
            "leaderElection.leaseDuration: Invalid type: "
            'expected a duration like "15s" or "1m30s", got 15',
            id="a number for a duration",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: null}",
            "leaderElection.leaseDuration: Invalid type: "
            'expected a duration like "15s" or "1m30s", got null',
            id="null for a duration",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 1d}",
            'leaderElection.leaseDuration: Invalid value: unknown unit "d" in duration "1d"',
            id="days",
        ),
        pytest.param(
            "leaderElection: [15s]",
            "leaderElection: Invalid type: expected an object, got a list",
            id="a list for an object",
        ),
        pytest.param(
            "extenders: {}",
            "extenders: Invalid type: expected a list, got an object",
            id="an object for a list",
        ),
        pytest.param(
            "extenders: [x]",
            'extenders[0]: Invalid type: expected an object, got "x"',
            id="text for an object in a list",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {caData: '?'}}]",
            "extenders[0].tlsConfig.caData: Invalid value: not base64: Only base64 data is allowed",
            id="what is not base64",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {caData: 5}}]",
            "extenders[0].tlsConfig.caData: Invalid type: expected a string, got 5",
            id="a number for base64",
        ),
        pytest.param(
            "paralelism: 3",
            'paralelism: unknown field "paralelism", did you mean "parallelism"?',
            id="a field with a typing error",
        ),
        pytest.param(
            "leaderElection: {leaderelect: true}",
            'leaderElection.leaderelect: unknown field "leaderelect", did you mean "leaderElect"?',
            id="a field in the wrong case",
        ),
        pytest.param(
            "metadata: {}", 'metadata: unknown field "metadata"', id="a field like no other"
        ),
        pytest.param(
            "parallelism: 3\nparallelism: 4",
            'parallelism: duplicate field "parallelism", first set on line 3',
            id="a field that is set twice",
        ),
    ],
)
def test_names_a_field_that_cannot_be_decoded(
    problems: Callable[..., list[str]], body: str, want: str
):
    assert problems(body) == [want]
