"""The rules outside of profiles: what kube-scheduler v1.36.3 refuses is refused."""

from collections.abc import Callable

import pytest

from scheduler.config.settings import Settings

_LONG_DOMAIN = "a" * 245


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("percentageOfNodesToScore: 100", id="all nodes"),
        pytest.param("{podInitialBackoffSeconds: 5, podMaxBackoffSeconds: 5}", id="equal pauses"),
        pytest.param("leaderElection: {leaderElect: false, leaseDuration: 1s}", id="no election"),
        pytest.param(
            "leaderElection: {leaderElect: false, resourceLock: endpoints}",
            id="an old lock without election",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 11000ms}", id="a lease a little longer than renewal"
        ),
        pytest.param(
            "leaderElection: {renewDeadline: 2401ms}", id="a deadline a little over 1.2 retries"
        ),
        pytest.param("extenders: [{weight: -5}]", id="a weight that nothing uses"),
        pytest.param("extenders: [{enableHTTPS: true, tlsConfig: {}}]", id="TLS without a CA"),
        pytest.param("extenders: [{tlsConfig: {insecure: true}}]", id="TLS unverified"),
        pytest.param("extenders: [{httpTimeout: -1s}]", id="no timeout"),
    ],
)
def test_accepts(parse: Callable[..., Settings], body: str):
    if body.startswith("{"):
        body = body[1:-1].replace(", ", "\n")

    assert isinstance(parse(body), Settings)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            "parallelism: 0",
            ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
            id="no parallelism",
        ),
        pytest.param(
            "percentageOfNodesToScore: 101",
            ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
            id="more than all nodes",
        ),
        pytest.param(
            "percentageOfNodesToScore: -1",
            ["percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
            id="less than no nodes",
        ),
        pytest.param(
            "podInitialBackoffSeconds: 0",
            ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
            id="no pause",
        ),
        pytest.param(
            "podInitialBackoffSeconds: 11",
            [
                "podMaxBackoffSeconds: Invalid value: 10: "
                "must be greater than or equal to PodInitialBackoffSeconds"
            ],
            id="a first pause longer than the longest",
        ),
        pytest.param(
            "podInitialBackoffSeconds: x\npodMaxBackoffSeconds: 0",
            ['podInitialBackoffSeconds: Invalid type: expected a 64-bit integer, got "x"'],
            id="nothing is compared with a value that could not be read",
        ),
        pytest.param(
            "clientConnection: {burst: -1}",
            ["clientConnection.burst: Invalid value: -1: must be non-negative"],
            id="a negative burst",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: -1s, renewDeadline: -2s, retryPeriod: -3s}",
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero',
                'leaderElection.retryPeriod: Invalid value: "-3s": must be greater than zero',
            ],
            id="negative times",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15900ms, renewDeadline: 15500ms}",
            [
                'leaderElection.leaseDuration: Invalid value: "15.9s": '
                "must be whole seconds: a Lease cannot hold fractions of a second"
            ],
            id="a lease that others would see end before its holder does",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 10s}",
            [
                'leaderElection.leaseDuration: Invalid value: "10s": '
                "must be greater than `RenewDeadline`"
            ],
            id="a lease that ends with the deadline",
        ),
        pytest.param(
            "leaderElection: {renewDeadline: 2400ms}",
            [
                'leaderElection.renewDeadline: Invalid value: "2.4s": '
                "renewDeadline must be greater than retryPeriod*JitterFactor"
            ],
            id="a deadline too short for a second try",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 5s, renewDeadline: 5x}",
            ['leaderElection.renewDeadline: Invalid value: unknown unit "x" in duration "5x"'],
            id="no time is compared with one that could not be read",
        ),
        pytest.param(
            "leaderElection: {renewDeadline: 1s, retryPeriod: [2s]}",
            [
                "leaderElection.retryPeriod: Invalid type: "
                'expected a duration like "15s" or "1m30s", got a list'
            ],
            id="nor with a retry period that could not be read",
        ),
        pytest.param(
            "leaderElection: {resourceLock: endpoints}",
            [
                'leaderElection.resourceLock: Invalid value: "endpoints": '
                'resourceLock value must be "leases"'
            ],
            id="an old lock",
        ),
        pytest.param(
            "extenders: [{prioritizeVerb: p}]",
            ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
            id="an extender that scores without weight",
        ),
        pytest.param(
            "extenders: [{bindVerb: b}, {bindVerb: b}]",
            [
                'extenders: Invalid value: "found 2 extenders implementing bind": '
                "only one extender can implement bind"
            ],
            id="two extenders that bind",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {insecure: true, caFile: /ca}}]",
            [
                "extenders[0].tlsConfig.insecure: Invalid value: true: "
                "specifying a root certificates file with the insecure flag is not allowed"
            ],
            id="a CA that would not be used",
        ),
        pytest.param(
            "extenders: [{managedResources: [{name: cpu}]}]",
            [
                'extenders[0].managedResources[0].name: Invalid value: "cpu": '
                "is an invalid extended resource name"
            ],
            id="a native resource",
        ),
        pytest.param(
            f"extenders: [{{managedResources: [{{name: {_LONG_DOMAIN}/a}}]}}]",
            [
                f'extenders[0].managedResources[0].name: Invalid value: "{_LONG_DOMAIN}/a": '
                "is an invalid extended resource name"
            ],
            id="a resource whose quota name is too long",
        ),
        pytest.param(
            "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]",
            [
                'extenders[1].managedResources[0].name: Invalid value: "a.b/c": '
                "duplicate extender managed resource name"
            ],
            id="a resource of two extenders",
        ),
    ],
)
def test_refuses(problems: Callable[..., list[str]], body: str, want: list[str]):
    assert problems(body) == want
