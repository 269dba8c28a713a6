"""Every field outside of profiles arrives, and values of a wrong type are named."""

import pytest

from scheduler.config.settings import (
    ClientConnection,
    Extender,
    ExtenderTLS,
    LeaderElection,
    ManagedResource,
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
def test_reads_every_field(parse, body, attribute, want):
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
def test_limits_the_client_only_when_configured(parse, fields, want_qps, want_burst):
    client = parse(f"clientConnection: {{{fields}}}").client_connection

    assert (client.qps, client.burst) == (want_qps, want_burst)


def test_ignorable_extenders_are_called_last(parse):
    body = """
        extenders:
        - {urlPrefix: a, ignorable: true}
        - {urlPrefix: b}
        - {urlPrefix: c, ignorable: true}
        - {urlPrefix: d}
        """

    assert [each.url_prefix for each in parse(body).extenders] == ["b", "d", "a", "c"]
