"""The scheduler understands the configuration and the flags that the chart gives it."""

import re
from pathlib import Path

import pytest
import yaml

from scheduler.cli import main
from scheduler.config import load
from scheduler.config.args import PreemptiveSchedulerArgs
from tests.charts.rendering import CHART, ROOT, VALUES, Helm, configuration, container, one

pytestmark = pytest.mark.chart


def written(helm: Helm, values: dict, folder: Path) -> Path:
    """Write the configuration of a release to a file, as the pod sees it."""
    path = folder / "config.yaml"
    path.write_text(configuration(helm.template(values)))
    return path


@pytest.mark.parametrize("case", VALUES)
def test_check_config_finds_nothing(helm, case, tmp_path, capsys):
    path = written(helm, {**VALUES[case], "fullnameOverride": "second"}, tmp_path)

    code = main.main(["check-config", str(path)])

    assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("case", VALUES)
def test_the_command_line_is_understood(helm, case):
    arguments = container(helm.template(VALUES[case]))["args"]

    understood = main.parser().parse_args(arguments)

    wanted = VALUES[case].get("logging", {"format": "json", "verbosity": 0})
    assert {"format": understood.logging_format, "verbosity": understood.verbosity} == wanted
    assert understood.secure_port == 10259


def test_metrics_are_open_to_every_client_only_where_the_values_say_so(helm):
    def open_paths(case: str) -> list[str]:
        arguments = main.parser().parse_args(container(helm.template(VALUES[case]))["args"])
        return list(arguments.authorization_always_allow_paths)

    health = ["/healthz", "/readyz", "/livez"]
    assert open_paths("nothing") == open_paths("monitored by a service") == health
    assert open_paths("monitored by everybody") == [*health, "/metrics"]


def test_the_configuration_is_mounted_where_the_flag_says(helm):
    found = container(helm.template())

    (mount,) = (each for each in found["volumeMounts"] if each["name"] == "config")
    assert f"--config={mount['mountPath']}/config.yaml" in found["args"]


def test_pods_of_each_version_have_a_configuration_of_their_own(helm):
    old, new = (
        helm.template({"config": {"profiles": [{"schedulerName": name}]}}) for name in ("a", "b")
    )

    assert [yaml.safe_load(configuration(each))["profiles"] for each in (old, new)] == [
        [{"schedulerName": "a"}],
        [{"schedulerName": "b"}],
    ]
    # Nothing else is mounted by a name that a new version of the release could fill otherwise.
    volumes = one(old, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {kind for each in volumes for kind in each} == {"name", "downwardAPI", "emptyDir"}


def test_the_values_of_the_page_about_devices_let_pods_preempt_for_them(helm, tmp_path):
    page = (ROOT / "docs" / "devices.md").read_text()
    (values,) = re.findall(r"^```yaml\n(config:.*?)^```", page, re.MULTILINE | re.DOTALL)

    path = written(helm, yaml.safe_load(values), tmp_path)

    (profile,) = load.read(path).profiles
    assert profile.arguments(PreemptiveSchedulerArgs).preempt_for_devices


def test_the_chart_knows_every_flag_of_the_scheduler():
    text = (CHART / "templates" / "_validate.tpl").read_text()
    (own,) = re.findall(r'ownFlags" -}}\n(.*?)\n{{- end', text, re.DOTALL)
    (more,) = re.findall(r'moreFlags" -}}\n(.*?)\n{{- end', text, re.DOTALL)

    known = [*yaml.safe_load(own), *yaml.safe_load(more)]
    (commands,) = (each.choices for each in main.parser()._actions if each.choices)
    flags = {flag for each in commands["run"]._actions for flag in each.option_strings}
    assert sorted(known) == sorted(flag.lstrip("-") for flag in flags - {"-h", "--help"})


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, {"requests": {"cpu": "100m", "memory": "256Mi"}}),
        ({"size": "large"}, {"requests": {"cpu": "1", "memory": "2Gi"}}),
        (
            {"size": "medium", "resources": {"limits": {"memory": "4Gi"}}},
            {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
        ),
        ({"resources": {"requests": {"cpu": "2", "memory": None}}}, {"requests": {"cpu": "2"}}),
        ({"resources": None}, None),
    ],
    ids=["nothing", "a size", "a size and a limit", "requests", "no resources at all"],
)
def test_a_size_replaces_the_requests(helm, values, want):
    found = container(helm.template({**values, "recorder": {"enabled": False}}))

    assert found.get("resources") == want
