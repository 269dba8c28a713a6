"""The chart of the definition: the shipped file, as an object of a release."""

import json

import pytest
import yaml

from deploy.tools.demo import installation
from scheduler.kube.policies.registry import MAX_POLICIES
from tests.charts.rendering import CHART, Helm, Json

pytestmark = pytest.mark.chart

DEFINITIONS = CHART.with_name("preemptive-scheduler-crds")
KEEP = "helm.sh/resource-policy"


def rendered(helm: Helm, **values: object) -> Json:
    text = helm.run("template", "crds", str(DEFINITIONS), values=values)
    (found,) = (each for each in yaml.safe_load_all(text) if each is not None)
    return dict(found)


def test_it_holds_the_definition_that_is_shipped(helm: Helm):
    shipped = yaml.safe_load((installation.BASE / "preemption-policies.yaml").read_text())

    found = rendered(helm)

    assert found["spec"] == shipped["spec"]
    assert found["metadata"]["name"] == shipped["metadata"]["name"]
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"


@pytest.mark.parametrize("keep", [True, False])
def test_the_definition_stays_unless_configured_otherwise(helm: Helm, keep: bool):
    annotations = rendered(helm, keep=keep)["metadata"].get("annotations", {})

    assert annotations == ({KEEP: "keep"} if keep else {})
    assert rendered(helm)["metadata"]["annotations"] == {KEEP: "keep"}


def test_it_is_linted_and_refuses_values_that_do_not_exist(helm: Helm):
    assert "0 chart(s) failed" in helm.run("lint", str(DEFINITIONS), "--strict")
    with pytest.raises(ValueError, match="additional properties 'kept' not allowed"):
        rendered(helm, kept=True)


def test_the_definition_says_how_many_policies_there_can_be():
    shipped = yaml.safe_load((installation.BASE / "preemption-policies.yaml").read_text())

    (version,) = shipped["spec"]["versions"]
    said = version["schema"]["openAPIV3Schema"]["description"]
    assert f"At most the {MAX_POLICIES} oldest policies" in said


@pytest.mark.parametrize(("flags", "count"), [(["--include-crds"], 2), (["--skip-crds"], 1)])
def test_with_the_folder_and_the_value_the_definition_is_there_twice(
    helm: Helm, flags: list[str], count: int
):
    """Argo CD includes the folder unless it is told to skip it."""
    text = helm.run("template", "a", str(CHART), *flags, values={"crds": {"enabled": True}})

    kinds = [each["kind"] for each in yaml.safe_load_all(text) if each is not None]
    assert kinds.count("CustomResourceDefinition") == count


def test_both_charts_have_the_same_version():
    ours, other = (
        yaml.safe_load((folder / "Chart.yaml").read_text()) for folder in (DEFINITIONS, CHART)
    )
    schema = json.loads((DEFINITIONS / "values.schema.json").read_text())

    assert {key: ours[key] for key in ("version", "appVersion", "kubeVersion")} == {
        key: other[key] for key in ("version", "appVersion", "kubeVersion")
    }
    assert "keep" in schema["properties"]
