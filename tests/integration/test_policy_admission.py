"""Invalid policies are refused by the API server, and the field is named.

The reader refuses all of them: `tests/config/test_policies.py` has the same table.
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
from tests.support.recipes import RECIPES
from tests.support.refusals import BEYOND_THE_SCHEMA, POLICIES, VALID_POLICIES

pytestmark = pytest.mark.cluster

DEFINITION: Final = installation.BASE / "preemption-policies.yaml"
PATH: Final = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"


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


def spec_of(recipe: str) -> str:
    return yaml.safe_dump(RECIPES[recipe]["spec"])


def submitted(plane: ControlPlane, spec: str) -> dict[str, Any]:
    """Return what the server would store; nothing is."""
    return plane.api.post(f"{PATH}?dryRun=All&fieldValidation=Ignore", policy(spec))


@pytest.mark.parametrize("spec", POLICIES)
def test_the_api_server_refuses_and_names_the_field(plane, spec):
    with pytest.raises(ApiError) as caught:
        submitted(plane, spec)

    assert caught.value.status == 422, caught.value
    assert POLICIES[spec][0].partition(": ")[0] in caught.value.message


@pytest.mark.parametrize("spec", BEYOND_THE_SCHEMA)
def test_fields_that_the_schema_cannot_validate_reach_the_reader_unchanged(plane, spec):
    stored = submitted(plane, spec)

    with pytest.raises(PolicyError) as caught:
        policies.read(stored)
    assert BEYOND_THE_SCHEMA[spec][0] in str(caught.value)


@pytest.mark.parametrize("spec", [*VALID_POLICIES, *map(spec_of, RECIPES)])
def test_both_accept_what_is_valid(plane, spec):
    stored = submitted(plane, spec)

    read = policies.read(stored)
    named = policies.read(policy(spec) | {"metadata": stored["metadata"]})
    assert read == named  # the defaults of the schema are those of the reader
