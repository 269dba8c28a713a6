"""Every invalid policy is refused by the API server or by the reader, and the field is named.

The reader must refuse them all: `plan` reads policies that no API server has seen. Those of
`BEYOND` get past the server.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.config import policies
from scheduler.config.policies import PolicyError

pytestmark = pytest.mark.cluster

DEFINITION: Final = installation.BASE / "preemption-policies.yaml"
PATH: Final = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"

#: Refused by the API server: the spec, and the field that it names.
REFUSED: Final = {
    "{mode: Maybe}": "spec.mode",
    "{foreignVictims: Sometimes}": "spec.foreignVictims",
    "{victimsFrom: Namespace}": "spec.victimsFrom",
    "{victimsFrom: [SameOwner]}": "spec.victimsFrom",
    "{podDisruptionBudgets: Lax}": "spec.podDisruptionBudgets",
    "{podDisruptionBudgets: StrictBelow}": "spec.strictBelowPriority",
    "{podDisruptionBudgets: Strict, strictBelowPriority: 0}": "spec.strictBelowPriority",
    "{strictBelowPriority: 5}": "spec.strictBelowPriority",
    "{podDisruptionBudgets: StrictBelow, strictBelowPriority: 2147483648}": (
        "spec.strictBelowPriority"
    ),
    "{preemptors: {minPriority: 5, maxPriority: 4}}": "spec.preemptors.minPriority",
    "{victims: {minPriority: 5, maxPriority: 4}}": "spec.victims.minPriority",
    "{preemptors: {maxPriority: 10}, victims: {minPriority: 10}}": "spec.victims.minPriority",
    "{victims: {maxPriority: 99999999999999999999}}": "spec.victims.maxPriority",
    "{victims: {maxPriority: high}}": "spec.victims.maxPriority",
    "{budgets: [{window: 1h}]}": "spec.budgets[0].maxVictims",
    "{budgets: [{maxVictims: 1}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: -1, window: 1h}]}": "spec.budgets[0].maxVictims",
    "{budgets: [{maxVictims: 10001, window: 1h}]}": "spec.budgets[0].maxVictims",
    "{budgets: [{maxVictims: 1e40, window: 1h}]}": "spec.budgets[0].maxVictims",
    "{budgets: [{maxVictims: 1.5, window: 1h}]}": "spec.budgets[0].maxVictims",
    "{budgets: [{maxVictims: 1, window: -5m}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 0s}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 721h}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 1d}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 99999999999h}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 3600}]}": "spec.budgets[0].window",
    "{budgets: [{maxVictims: 1, window: 1h, scope: Rack}]}": "spec.budgets[0].scope",
    "{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 2, window: 1h}]}": "spec.budgets[1]",
    "{budgets: {maxVictims: 1, window: 1h}}": "spec.budgets",
    "{maxVictimsPerPreemption: -1}": "spec.maxVictimsPerPreemption",
    "{maxPreemptionsPerOwner: {maxPreemptions: 1}}": "spec.maxPreemptionsPerOwner.window",
    "{maxPreemptionsPerOwner: {window: 1h}}": "spec.maxPreemptionsPerOwner.maxPreemptions",
    "{victimMinRuntime: -1s}": "spec.victimMinRuntime",
    "{preemptorDelay: 1000000h}": "spec.preemptorDelay",
    "{preemptors: {priorityClassNames: [High]}}": "spec.preemptors.priorityClassNames[0]",
    "{preemptors: {priorityClassNames: [a, a]}}": "spec.preemptors.priorityClassNames[1]",
    "{preemptors: {priorityClassNames: ['']}}": "spec.preemptors.priorityClassNames[0]",
    "{preemptors: [a]}": "spec.preemptors",
    "{stop: 'yes'}": "spec.stop",
    "{stopReason: 4711}": "spec.stopReason",
    f"{{stop: true, stopReason: {'x' * 257}}}": "spec.stopReason",
    "{victims: {podSelector: {matchExpressions: [{key: a, operator: Near}]}}}": (
        "spec.victims.podSelector.matchExpressions[0]"
    ),
    "{victims: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}": (
        "spec.victims.podSelector.matchExpressions[0]"
    ),
    "{victims: {podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}": (
        "spec.victims.podSelector.matchExpressions[0]"
    ),
    "{victims: {namespaceSelector: {matchLabels: {a: 1}}}}": (
        "spec.victims.namespaceSelector.matchLabels.a"
    ),
    "null": "spec",
}
#: Admitted by the API server, refused by the reader.
BEYOND: Final = {
    "{maxVictimPerPreemption: 1}": "spec.maxVictimPerPreemption",
    "{victims: {nodeSelector: {matchLabels: {a: b}}}}": "spec.victims.nodeSelector",
    "{victims: {podSelector: {matchLabel: {a: b}}}}": "spec.victims.podSelector.matchLabel",
    "{budgets: [{maxVictims: 1, window: 1h, per: Node}]}": "spec.budgets[0].per",
    "{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 2, window: 60m}]}": "spec.budgets[1]",
    "{victims: {podSelector: {matchLabels: {a: '!'}}}}": "spec.victims.podSelector.matchLabels.a",
    "{victims: {podSelector: {matchLabels: {'-a': b}}}}": "spec.victims.podSelector.matchLabels.-a",
    "{victims: {podSelector: {matchExpressions: [{key: '/', operator: Exists}]}}}": (
        "spec.victims.podSelector.matchExpressions[0]"
    ),
}
VALID: Final = [
    "{}",
    "{preemptors: {}, victims: {podSelector: {}}, budgets: []}",
    "{stop: true, stopReason: incident 4711}",
    """
mode: Audit
preemptors:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}
  podSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}
  minPriority: -2147483648
  maxPriority: 2147483647
  priorityClassNames: [system-cluster-critical, high]
victims: {maxPriority: 2147483646, podSelector: {matchExpressions: [{key: a, operator: Exists}]}}
podDisruptionBudgets: StrictBelow
strictBelowPriority: 0
budgets:
- {maxVictims: 0, window: 1s}
- {maxVictims: 10000, window: 720h, scope: Namespace}
- {maxVictims: 5, window: 1h30m, scope: Owner}
- {maxVictims: 5, window: 1.5h, scope: Node}
maxVictimsPerPreemption: 0
victimMinRuntime: "0"
maxPreemptionsPerOwner: {maxPreemptions: 3, window: 500000ms}
preemptorDelay: 0s
foreignVictims: NonLooping
victimsFrom: SameNamespace
""",
]


@pytest.fixture(scope="module", autouse=True)
def installed(plane: ControlPlane) -> Iterator[None]:
    """The definition that is shipped; other tests run without it."""
    (made,) = plane.api.apply(DEFINITION)
    yield
    plane.api.delete(
        f"/apis/{made['apiVersion']}/customresourcedefinitions/{made['metadata']['name']}"
    )


def policy(spec: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": policies.API_VERSION,
        "kind": policies.KIND,
        "metadata": {"name": "judged"},
    }
    found = yaml.safe_load(spec)
    return document if found is None else document | {"spec": found}


def submitted(plane: ControlPlane, spec: str) -> dict[str, Any]:
    """Return what the server would store; nothing is."""
    return plane.api.post(f"{PATH}?dryRun=All&fieldValidation=Ignore", policy(spec))


@pytest.mark.parametrize("spec", REFUSED)
def test_the_api_server_refuses_and_names_the_field(plane: ControlPlane, spec: str):
    with pytest.raises(ApiError) as caught:
        submitted(plane, spec)

    assert caught.value.status == 422, caught.value
    assert REFUSED[spec] in caught.value.message


@pytest.mark.parametrize("spec", REFUSED | BEYOND)
def test_the_reader_refuses_and_names_the_field(spec: str):
    with pytest.raises(PolicyError) as caught:
        policies.read(policy(spec))

    field = (REFUSED | BEYOND)[spec]
    assert any(each.path.startswith(field) for each in caught.value.problems), caught.value


@pytest.mark.parametrize("spec", BEYOND)
def test_fields_that_the_schema_cannot_validate_reach_the_reader_unchanged(
    plane: ControlPlane, spec: str
):
    stored = submitted(plane, spec)

    with pytest.raises(PolicyError) as caught:
        policies.read(stored)
    assert BEYOND[spec] in str(caught.value)


@pytest.mark.parametrize("spec", VALID)
def test_both_accept_what_is_valid(plane: ControlPlane, spec: str):
    stored = submitted(plane, spec)

    read = policies.read(stored)
    named = policies.read(policy(spec) | {"metadata": stored["metadata"]})
    assert read == named  # the defaults of the schema are those of the reader
