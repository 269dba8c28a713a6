"""What a user of the command line sees: answers, one-line complaints, exit codes."""

import json
import re
from pathlib import Path
from ssl import TLSVersion
from typing import Any

import pytest

from scheduler.cli import run
from scheduler.cli.main import main, parser
from scheduler.service.options import ProcessOptions

CLUSTER = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-1}
  status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: low, namespace: default}
  spec:
    nodeName: node-1
    priority: 1
    containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: high, namespace: default}
spec:
  priority: 10
  schedulerName: preemptive-scheduler
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def plan(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 3) -> dict[str, Any]:
    """Return the answer of `plan`."""
    assert main(["plan", "-o", "json", *arguments]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_plan_names_the_pods_that_would_be_evicted(cluster, capsys):
    answer = plan(capsys, "-f", cluster)

    assert answer["verdict"] == "Applying this would evict 1 pod."
    (item,) = answer["items"]
    assert (item["decision"], item["node"], item["finalNode"]) == ("Preempting", "node-1", "node-1")
    assert [each["pod"]["name"] for each in item["victims"]] == ["low"]


@pytest.mark.parametrize(
    ("flags", "pod", "code"),
    [
        pytest.param([], "", 3, id="a pod is evicted"),
        pytest.param(["--fail-on", "budget,pending"], "", 0, id="that is not asked for"),
        pytest.param(["--fail-on", "none"], "", 0, id="nothing is asked for"),
        pytest.param(["--fail-on", "budget", "--fail-on", "eviction"], "", 3, id="repeated"),
        pytest.param([], "priority: 0", 0, id="a pod stays pending"),
        pytest.param(["--fail-on", "pending"], "priority: 0", 6, id="and must not"),
        pytest.param(["--fail-on", "none"], "schedulerName: default-scheduler", 4, id="foreign"),
        pytest.param(
            ["--scheduler-name", "preemptive-scheduler"], "schedulerName: x", 3, id="forced"
        ),
        pytest.param(["--scheduler-name", "another"], "", 1, id="no such profile"),
        pytest.param(["--drain", "node-9"], "", 1, id="no such node"),
    ],
)
def test_exit_codes_of_plan(flags, pod, code, tmp_path):
    path = tmp_path / "cluster.yaml"
    field = pod.partition(":")[0]
    path.write_text(
        re.sub(f"  {field}: [^1].*|  {field}: 10", f"  {pod}", CLUSTER) if pod else CLUSTER
    )

    assert main(["plan", "-f", str(path), *flags]) == code


def test_a_broken_budget_and_a_blocked_drain_have_an_exit_code(cluster, tmp_path):
    budget = tmp_path / "budget.yaml"
    budget.write_text(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all},"
        " spec: {selector: {}}}"
    )
    files = ["plan", "-f", cluster, "-f", str(budget)]

    assert main([*files, "--fail-on", "budget,eviction"]) == 5
    assert main([*files, "--drain", "node-1", "--no-settle"]) == 5
    assert main([*files, "--drain", "node-1", "--no-settle", "--fail-on", "none"]) == 0
    assert main(files) == 3


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "preemption-policy.yaml"


PREEMPTS = "preemption: found a potential placement for pod on node node-1, preempting 1 victims"


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of the only result of `plan`."""
    (item,) = plan(capsys, *arguments)["items"]
    return str(item["message"])


def test_plan_decides_as_the_release_that_it_is_given(cluster, capsys):
    assert PREEMPTS in planned(capsys, "-f", cluster)
    assert PREEMPTS in planned(capsys, "-f", cluster, "--reference", "v1.37")
    assert PREEMPTS not in planned(capsys, "-f", cluster, "--reference", "v1.36")


@pytest.mark.parametrize(
    ("config", "flags", "newer"),
    [
        pytest.param("", (), True, id="of the cluster that a snapshot was taken of"),
        pytest.param("v1.36", (), False, id="that the configuration names"),
        pytest.param("v1.36", ("--reference", "v1.37"), True, id="that the flag names"),
    ],
)
def test_plan_decides_as_the_release(config, flags, newer, tmp_path, capsys):
    snapshot = tmp_path / "snapshot.yaml"
    snapshot.write_text(CLUSTER.replace("kind: List", "kind: List\nreference: v1.37"))
    arguments = ["-f", str(snapshot), *flags]
    if config:
        file = tmp_path / "config.yaml"
        args = f"[{{name: PreemptiveScheduler, args: {{reference: {config}}}}}]"
        file.write_text(f"{CONFIG}profiles: [{{pluginConfig: {args}}}]\n")
        arguments += ["--config", str(file)]

    assert (PREEMPTS in planned(capsys, *arguments)) is newer


def test_plan_honours_preemption_policies(capsys):
    arguments = ["-f", str(EXAMPLE), "--explain", "--no-settle", "--at"]

    first, second = plan(capsys, *arguments, "2026-01-01T12:00:00Z")["items"]
    later = plan(capsys, *arguments, "2026-01-01T12:05:00Z")["items"]

    victims = [each["pod"]["name"] for each in first["victims"]]
    assert (first["decision"], victims) == ("Preempting", ["etl-2"])
    assert second["decision"] == "Unschedulable"
    assert "(until 2026-01-01T12:05:00Z)" in second["message"]
    vetoes = {node["name"]: node.get("vetoes", []) for node in second["nodes"]}
    assert [len(vetoes[name]) for name in ("n1", "n2", "n3")] == [1, 0, 1]
    assert "batch/etl-1 (until 2026-01-01T12:05:00Z)" in vetoes["n1"][0]
    # Of one owner only one may go within an hour.
    assert [result["decision"] for result in later] == ["Preempting", "Unschedulable"]
    assert "per owner (until 2026-01-01T13:05:00Z)" in later[1]["message"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: [1\nb: 2\n", ":2: did not find", id="broken YAML names the line"),
        pytest.param("words", ":1: a string is not a Kubernetes object", id="words are refused"),
        pytest.param("kind: Foo\n", ":1: Foo: apiVersion is missing", id="no version is refused"),
        pytest.param(
            "\n\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: none}\n",
            ":3: Pod: spec.containers: must be a list, not a string",
            id="a field of the wrong type is named",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: x}\nstatus: {allocatable: {cpu: 1KB}}\n",
            ":1: Node: '1KB' is not a quantity",
            id="a quantity that is none is named",
        ),
    ],
)
def test_plan_refuses_bad_input_in_one_line(text, want, tmp_path, capsys):
    path = tmp_path / "bad.yaml"
    path.write_text(text)

    code = main(["plan", "-f", str(path)])

    complaint = capsys.readouterr().err
    assert code == 1
    assert complaint.count("\n") == 1 + complaint.count("note: decided")
    assert want in complaint


def test_plan_says_which_document_makes_no_pods(cluster, tmp_path, capsys):
    path = tmp_path / "foo.yaml"
    path.write_text("---\napiVersion: v1\nkind: Foo\nmetadata: {name: x}\n")

    code = main(["plan", "-f", cluster, "-f", str(path)])

    assert code == 3
    want = f"warning: {path}:2: kind Foo of v1 is not known, so it makes no pods in this plan\n"
    assert capsys.readouterr().err.endswith(want)


def test_certificates_of_an_extender_that_cannot_be_used_are_one_clear_line(
    cluster, tmp_path, capsys
):
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}extenders: [{{tlsConfig: {{caFile: /nowhere}}}}]\n")

    code = main(["plan", "-f", cluster, "--config", str(config)])

    assert code == 1
    want = f"error: {config}: extenders[0].tlsConfig: No such file or directory\n"
    assert capsys.readouterr().err.endswith(want)


def test_run_writes_the_effective_configuration(tmp_path):
    path = tmp_path / "effective.yaml"

    code = main(["run", "--write-config-to", str(path), "--leader-elect=false"])

    assert code == 0
    assert main(["check-config", str(path)]) == 0
    assert "leaderElect: false" in path.read_text()


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        (
            ["--tls-cert-file", "c.pem"],
            "--tls-cert-file and --tls-private-key-file must be set together",
        ),
        (
            ["--tls-private-key-file", "k"],
            "--tls-cert-file and --tls-private-key-file must be set together",
        ),
        (["--authorization-always-allow-paths", "/a*b"], "* is only allowed at the end"),
        (["--authorization-webhook-cache-authorized-ttl", "soon"], "soon"),
        (["--tls-min-version", "VersionTLS10"], "the minimum is VersionTLS12"),
        (["--tls-min-version", "1.2"], "unknown tls version '1.2'"),
        (["--tls-cipher-suites", "TLS_AES_128_GCM_SHA256,RC4"], "cipher suite RC4 not supported"),
    ],
)
def test_run_refuses_serving_flags_that_mean_nothing(flags, want, capsys):
    try:
        code: object = main(["run", *flags])
    except SystemExit as end:
        code = end.code

    assert code == 2
    assert want in capsys.readouterr().err


def parsed(arguments: list[str]) -> ProcessOptions:
    """Return the options of the live scheduler."""
    parsed = parser().parse_args(arguments)
    return run.options(parsed, run.settings(parsed))


def test_run_logs_its_flags_with_their_effective_values(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: true, leaseDuration: 30s}\n"
    )

    options = parsed(
        [
            "run", "--config", str(config), "--leader-elect=false", "-v", "4",
            "--tls-cipher-suites", "TLS_AES_128_GCM_SHA256", "--compare-cache-period", "90s",
        ]
    )  # fmt: skip

    assert options.flags == {
        "authentication-token-webhook-cache-ttl": "10s",
        "authorization-always-allow-paths": "[/healthz,/readyz,/livez]",
        "authorization-webhook-cache-authorized-ttl": "10s",
        "authorization-webhook-cache-unauthorized-ttl": "10s",
        "bind-address": "0.0.0.0",
        "compare-cache-period": "1m30s",
        "config": str(config),
        "evict-only": "false",
        "kubeconfig": "",
        "leader-elect": "false",
        "leader-elect-lease-duration": "30s",
        "leader-elect-renew-deadline": "10s",
        "leader-elect-resource-lock": "leases",
        "leader-elect-resource-name": "preemptive-scheduler",
        "leader-elect-resource-namespace": "",
        "leader-elect-retry-period": "2s",
        "logging-format": "json",
        "owner-deployment": "",
        "recording-dir": "",
        "recording-retention": "24h0m0s",
        "recording-size": "67108864",
        "reference": "",
        "reference-change": "report",
        "secure-port": "10259",
        "shadow": "[]",
        "tls-cert-file": "",
        "tls-cipher-suites": "[TLS_AES_128_GCM_SHA256]",
        "tls-min-version": "",
        "tls-private-key-file": "",
        "v": "4",
        "write-config-to": "",
    }
    assert options.listen.min_version is TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("flags", "oldest", "ciphers"),
    [
        ([], TLSVersion.TLSv1_2, ""),
        (["--tls-min-version", "VersionTLS13"], TLSVersion.TLSv1_3, ""),
        (
            ["--tls-cipher-suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"],
            TLSVersion.TLSv1_2,
            "ECDHE-RSA-AES128-GCM-SHA256",
        ),
    ],
)
def test_run_serves_the_protocols_that_flags_name(flags, oldest, ciphers):
    listen = parsed(["run", *flags]).listen

    assert (listen.min_version, listen.ciphers) == (oldest, ciphers)


def test_plan_takes_only_times(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["plan", "-f", str(EXAMPLE), "--at", "noon"])

    assert ended.value.code == 2
    assert "not a time like 2026-01-02T15:04:05Z: 'noon'" in capsys.readouterr().err


TWO = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: a}, {schedulerName: b}]
"""


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--shadow", "c"], "several profiles and none is named 'c': a, b;"),
        (["--shadow", "a,"], "a name is empty: 'a,'"),
        (["--shadow", "a", "--recording-dir", "x"], "--recording-dir has no use with --shadow"),
    ],
)
def test_shadow_mode_that_makes_no_sense_is_refused(tmp_path, flags, problem, capsys):
    path = tmp_path / "two.yaml"
    path.write_text(TWO)

    try:
        code = main(["run", "--config", str(path), *flags])
    except SystemExit as ended:  # argparse
        code = ended.code

    assert code == 2
    assert problem in capsys.readouterr().err


def test_shadow_mode_decides_for_other_names_and_has_a_lease_of_its_own(tmp_path):
    def shadowed(*flags: str) -> tuple[list[str], str]:
        made = parsed(["run", "--shadow", "default-scheduler,batch", *flags]).settings
        names = [profile.scheduler_name for profile in made.profiles]
        return names, made.leader_election.resource_name

    names = ["default-scheduler", "batch"]
    assert shadowed() == (names, "preemptive-scheduler-shadow")
    assert shadowed("--leader-elect-resource-name", "own") == (names, "own")


def test_a_kubeconfig_that_is_not_there_is_one_line(capfd):
    code = main(["run", "--kubeconfig", "/nowhere/config", "--secure-port", "0"])

    assert code == 2
    assert "kubeconfig /nowhere/config: No such file" in capfd.readouterr().err
