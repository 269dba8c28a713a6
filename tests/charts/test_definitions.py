"""The chart of the definition: the shipped file, as an object of a release."""

import json

import pytest
import yaml

from tests.charts.rendering import CHART

pytestmark = pytest.mark.chart

DEFINITIONS = CHART.with_name("preemptive-scheduler-crds")


def test_both_charts_have_the_same_version():
    ours, other = (
        yaml.safe_load((folder / "Chart.yaml").read_text()) for folder in (DEFINITIONS, CHART)
    )
    schema = json.loads((DEFINITIONS / "values.schema.json").read_text())

    assert {key: ours[key] for key in ("version", "appVersion", "kubeVersion")} == {
        key: other[key] for key in ("version", "appVersion", "kubeVersion")
    }
    assert "keep" in schema["properties"]
