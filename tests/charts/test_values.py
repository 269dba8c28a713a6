"""Wrong values are refused, in words that say what is wrong; right ones are explained."""

import json
import re

import pytest
import yaml

from tests.charts.rendering import CHART, NAME, Helm

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEXT = (CHART / "values.yaml").read_text()

WRONG = {
    "an unknown value": ({"replicas": 3}, "additional properties 'replicas' not allowed"),
    "an unknown value further in": (
        {"image": {"name": "a"}},
        "at '/image': additional properties 'name' not allowed",
    ),
    "fewer than no replicas": ({"replicaCount": -1}, "at '/replicaCount': minimum: got -1, want 0"),
    "a word for a number": (
        {"replicaCount": "two"},
        "at '/replicaCount': got string, want integer",
    ),
    "a word for a truth": (
        {"networkPolicy": {"enabled": "yes please"}},
        "at '/networkPolicy/enabled': got string, want boolean",
    ),
    "a digest that is none": ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest'"),
    "a tag with a digest": ({"image": {"tag": "v1@sha256:0"}}, "at '/image/tag'"),
    "a duration without a unit": (
        {"leaderElection": {"retryPeriod": "2"}},
        "at '/leaderElection/retryPeriod': '2' does not match",
    ),
    "no profile": ({"config": {"profiles": []}}, "at '/config/profiles': minItems: got 0, want 1"),
    "a profile without a name": (
        {"config": {"profiles": [{}]}},
        "at '/config/profiles/0': missing property 'schedulerName'",
    ),
    "a field that the configuration has not": (
        {"config": {"podBackoff": 1}},
        "at '/config': additional properties 'podBackoff' not allowed",
    ),
    "the lease in the configuration": (
        {"config": {"leaderElection": {"leaderElect": False}}},
        "at '/config': additional properties 'leaderElection' not allowed",
    ),
    "a log of another kind": (
        {"logging": {"format": "xml"}},
        "at '/logging/format': value must be",
    ),
    "an argument that is no flag": ({"extraArgs": ["run"]}, "at '/extraArgs/0': 'run'"),
    "a mount without a path": (
        {"extraVolumeMounts": [{"name": "a"}]},
        "at '/extraVolumeMounts/0': missing property 'mountPath'",
    ),
    "a policy without rules": (
        {"preemptionPolicies": [{"name": "a"}]},
        "at '/preemptionPolicies/0': missing property 'spec'",
    ),
    "a priority that only the system may have": (
        {"priorityClasses": [{"name": "a", "value": 2_000_000_000}]},
        "at '/priorityClasses/0/value': maximum",
    ),
    "a port beyond all ports": ({"service": {"port": 65536}}, "at '/service/port': maximum"),
    "a share of more than a number": (
        {"podDisruptionBudget": {"minAvailable": "half"}},
        "at '/podDisruptionBudget/minAvailable'",
    ),
    "a name that is too long": (
        {"fullnameOverride": "a" * 43},
        "at '/fullnameOverride': maxLength",
    ),
    # What a schema cannot say well.
    "several replicas without a lease": (
        {"leaderElection": {"enabled": False}},
        "replicaCount has to be 1 where leaderElection.enabled is false",
    ),
    "a monitor that may not read": (
        {"podMonitor": {"enabled": True}},
        "podMonitor needs podMonitor.authorization or metrics.anonymous",
    ),
    "both monitors": (
        {
            "metrics": {"anonymous": True},
            "podMonitor": {"enabled": True},
            "serviceMonitor": {"enabled": True},
        },
        "serviceMonitor and podMonitor exclude each other",
    ),
    "a monitor of a service that is not made": (
        {
            "metrics": {"anonymous": True},
            "service": {"create": False},
            "serviceMonitor": {"enabled": True},
        },
        "serviceMonitor needs service.create",
    ),
    "a budget that says two things": (
        {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}},
        "podDisruptionBudget takes minAvailable or maxUnavailable, not both",
    ),
    "no ServiceAccount": (
        {"serviceAccount": {"create": False}},
        "serviceAccount.name is needed, because serviceAccount.create is false",
    ),
}


@pytest.mark.chart
@pytest.mark.parametrize("case", WRONG)
def test_it_is_refused(helm: Helm, case: str):
    values, message = WRONG[case]

    with pytest.raises(ValueError, match=re.escape(message)):
        helm.template(values)


@pytest.mark.chart
def test_a_parent_chart_may_switch_it_off_and_share_values(helm: Helm):
    assert helm.template({"enabled": True, "global": {"imageRegistry": "a"}}) == helm.template()


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def leaves(values, schema, path=""):
    """Yield each value that the chart has a default for, with the schema of its parent."""
    for key, value in values.items():
        yield f"{path}{key}", schema
        below = resolved(resolved(schema)["properties"].get(key, {}))
        if isinstance(value, dict) and below.get("properties"):
            yield from leaves(value, below, f"{path}{key}.")


DEFAULTS = dict(leaves(yaml.safe_load(TEXT), SCHEMA))
#: Values that Kubernetes explains.
FOREIGN = ("resources.", "livenessProbe.", "readinessProbe.", "config.profiles")


@pytest.mark.parametrize("path", DEFAULTS)
def test_the_schema_knows_every_value(path: str):
    assert path.rsplit(".", 1)[-1] in resolved(DEFAULTS[path])["properties"]


def test_every_value_of_the_schema_has_a_default():
    wanted = SCHEMA["properties"].keys() - {"global", "enabled"}

    assert {path.split(".")[0] for path in DEFAULTS} == wanted


def test_the_schema_lets_no_unknown_value_pass():
    objects = [SCHEMA, *SCHEMA["properties"].values(), *SCHEMA["$defs"].values()]

    closed = [each for each in objects if "properties" in each and "required" not in each]
    assert closed
    assert [each for each in closed if each.get("additionalProperties") is not False] == []


def test_every_value_is_explained():
    lines = TEXT.splitlines()
    unexplained = []
    parents: list[str] = []
    for number, line in enumerate(lines):
        found = re.match(r"^( *)([A-Za-z][A-Za-z_]*):", line)
        if found is None:
            continue
        del parents[len(found[1]) // 2 :]
        path = ".".join([*parents, found[2]])
        parents.append(found[2])
        if path not in DEFAULTS or path.startswith(FOREIGN):
            continue
        explained = lines[number - 1].lstrip().startswith("#")
        opens = line.rstrip().endswith(":")
        if not explained and not opens:
            unexplained.append(path)
    assert unexplained == []


def test_the_page_of_the_chart_names_every_value_at_the_top():
    text = (CHART / "README.md").read_text()

    named = set(re.findall(r"^\| `([A-Za-z]+)", text, re.MULTILINE))
    assert named == {path.split(".")[0] for path in DEFAULTS}


def test_the_chart_has_the_version_of_the_package():
    from scheduler import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == __version__
    assert chart["name"] == NAME
