"""The chart of the definition: the shipped file, as an object of a release."""

import json

import pytest
import yaml

from tests.charts.rendering import CHART, Helm, Json

pytestmark = pytest.mark.chart

DEFINITIONS = CHART.with_name("preemptive-scheduler-crds")
KEEP = "helm.sh/resource-policy"


def rendered(helm: Helm, **values: object) -> Json:
    text = helm.run("template", "crds", str(DEFINITIONS), values=values)
    (found,) = (each for each in yaml.safe_load_all(text) if each is not None)
    return dict(found)


@pytest.mark.parametrize("keep", [True, False])
def test_the_definition_stays_unless_configured_otherwise(helm, keep):
    annotations = rendered(helm, keep=keep)["metadata"].get("annotations", {})

    assert annotations == ({KEEP: "keep"} if keep else {})
    assert rendered(helm)["metadata"]["annotations"] == {KEEP: "keep"}


def test_both_charts_have_the_same_version():
    ours, other = (
        yaml.safe_load((folder / "Chart.yaml").read_text()) for folder in (DEFINITIONS, CHART)
    )
    schema = json.loads((DEFINITIONS / "values.schema.json").read_text())

    assert {key: ours[key] for key in ("version", "appVersion", "kubeVersion")} == {
        key: other[key] for key in ("version", "appVersion", "kubeVersion")
    }
    assert "keep" in schema["properties"]
