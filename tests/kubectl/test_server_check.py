"""With a kubeconfig, the API server checks the objects of a plan before they are planned."""

from typing import Any

import pytest
import yaml

from scheduler.kubectl.errors import CommandError
from tests.kubectl.test_transport import api, config  # noqa: F401 - fixtures

POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    "spec": {"priority": 0, "containers": [{"name": "c", "image": "i"}]},
}  # fmt: skip
FORBIDDEN = (403, "Forbidden")


@pytest.fixture
def plan(run, config, tmp_path, capsys):  # noqa: F811
    """Plan objects; return what is printed to standard error."""

    async def plan(*objects: dict[str, Any]) -> str:
        path = tmp_path / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        await run("plan", "-f", str(path), KUBECONFIG=config)
        return capsys.readouterr().err

    return plan


async def test_each_object_is_applied_without_being_stored(plan, api):  # noqa: F811
    assert await plan({**POD, "metadata": {"name": "p", "uid": "u", "namespace": "team"}}) == ""

    (asked,) = (each for each in api.requests if "/pods/p?" in each)
    assert asked.startswith("/api/v1/namespaces/team/pods/p?dryRun=All&")
    assert "fieldValidation=Strict" in asked


async def test_what_the_api_server_refuses_is_not_planned(plan, api, scheduler, tmp_path):  # noqa: F811
    api.dry_run = (422, "Invalid", 'Pod "p" is invalid: spec.containers[0].name: Invalid value')

    with pytest.raises(CommandError) as error:
        await plan(POD)

    assert str(error.value) == (
        f'{tmp_path}/objects.yaml:1: cannot apply Pod "p": Pod "p" is invalid:'
        " spec.containers[0].name: Invalid value"
    )
    assert not any("plan" in each for each in scheduler.requests)


async def test_each_problem_has_a_line(plan, api):  # noqa: F811
    api.dry_run = (422, "Invalid", "odd\nforged")

    with pytest.raises(CommandError) as error:
        await plan(POD, {**POD, "metadata": {"name": "q"}})

    assert 'Pod "p"' in str(error.value)
    (second,) = error.value.advice.splitlines()
    assert second.endswith(r'cannot apply Pod "q": odd\nforged')


async def test_a_wrong_field_is_said_with_the_one_that_was_meant(plan, api, tmp_path):  # noqa: F811
    with pytest.raises(CommandError) as error:
        await plan({**POD, "spec": {**POD["spec"], "nodeNmae": "n"}})

    assert str(error.value) == (
        f'{tmp_path}/objects.yaml:1: Pod: spec.nodeNmae: unknown field, did you mean "nodeName"?'
    )
    assert not any("dryRun" in each for each in api.requests)


@pytest.mark.parametrize(
    ("answer", "more", "warning"),
    [
        pytest.param(
            (*FORBIDDEN, 'pods "p" is forbidden: User "jane" cannot patch resource "pods" in API'
             ' group "" in the namespace "prod"'), [], "you lack the right to patch them",
            id="no right",
        ),
        pytest.param(
            (*FORBIDDEN, 'pods "p" is forbidden: error looking up service account prod/robot:'
             ' serviceaccount "robot" not found'),
            [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}],
            "they need what the files create first", id="an account of the same files",
        ),
        pytest.param(
            (400, "BadRequest", 'admission webhook "w" does not support dry run'), [],
            "an admission webhook does not support it", id="a webhook without dry run",
        ),
    ],
)  # fmt: skip
async def test_what_cannot_be_checked_is_a_warning(plan, api, answer, more, warning):  # noqa: F811
    api.dry_run = answer

    said = await plan(POD, *more)

    assert f"the API server has not checked 1 of the objects: {warning}" in said


async def test_a_kind_is_known_to_the_api_server_or_defined_in_the_files(plan):
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    definition = {
        "apiVersion": "v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
        "spec": {"group": "example.com", "names": {"kind": "Widget"}},
    }  # fmt: skip

    with pytest.raises(CommandError, match="has no kind Widget in example"):
        await plan(POD, widget)
    with pytest.raises(CommandError) as error:
        await plan(POD, widget, definition)
    assert "Widget" not in str(error.value)
