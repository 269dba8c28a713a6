"""Has the API server check the objects of a plan, as `kubectl apply --dry-run=server` does.

Each object is applied with `dryRun=All` and `fieldValidation=Strict`: nothing is stored. What the
API server refuses would not come into being, so a plan of it would be wrong. It does not say which
field was meant, so an object whose fields are wrong by our own table is refused before it is asked.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from scheduler.kube.errors import ApiError, Forbidden, KubeError, MissingRight, NotFound, NotServed
from scheduler.kubectl.errors import api_server_error
from scheduler.kubectl.session import Session
from scheduler.sim import object_fields

__all__ = ["checked"]

_QUERY: Final = urlencode(
    {
        "dryRun": "All",
        "fieldManager": "kubectl-preemptive",
        "fieldValidation": "Strict",
        "force": "true",
    }
)
_AT_ONCE: Final = 8
#: How many problems are shown.
_SHOWN: Final = 10
#: What an API server adds, and refuses or ignores in an object that is applied.
_ADDED: Final = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)
#: Kinds that objects need to be there, and that the same files may create.
_NEEDED: Final = frozenset({"Namespace", "PriorityClass", "RuntimeClass", "ServiceAccount"})
#: How the API server names one of them that does not exist.
_MISSING: Final = re.compile(
    r'(?:namespaces|serviceaccount|RuntimeClass) "([^"]+)" not found'
    r"|no PriorityClass with name (\S+) was found"
)
_NO_DRY_RUN: Final = "does not support dry run"


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource of the API server."""

    base: str
    plural: str
    has_namespaces: bool


async def checked(
    session: Session, objects: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[list[str], list[str]]:
    """Return what the API server refuses, and what it could not check.

    With an address, the kubeconfig may be that of another cluster, so it is not asked.

    Args:
        session: The run of the command.
        objects: Pairs of the place of an object and the object.

    Raises:
        CommandError: The API server cannot be reached.
    """
    if session.arguments.server or not objects:
        return [], []
    from scheduler.kubectl.api_server import ApiServer  # its import takes long

    api = ApiServer(session.selection())
    try:
        check = _Check(api, session.namespace(), [document for _, document in objects])
        await check.run(objects)
    except KubeError as error:
        raise api_server_error(error, "") from error
    finally:
        await api.close()
    more = [f"and {len(check.problems) - _SHOWN} more"] if len(check.problems) > _SHOWN else []
    return check.problems[:_SHOWN] + more, check.warnings()


@dataclass(slots=True)
class _Check:
    """One check of all objects."""

    api: Any
    namespace: str
    objects: Sequence[dict[str, Any]]
    problems: list[str] = field(default_factory=list)
    _resources: dict[str, dict[str, _Resource]] = field(default_factory=dict)
    #: How many objects were not checked, by reason.
    _unchecked: dict[str, int] = field(default_factory=dict)

    async def run(self, objects: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Check all objects."""
        for version in {str(document["apiVersion"]) for document in self.objects}:
            self._resources[version] = await self._kinds(version)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def check(place: str, document: dict[str, Any]) -> str:
            problem = _wrong_fields(document)
            if not problem:
                async with gate:
                    problem = await self._problem(document)
            return f"{place}: {problem}" if problem else ""

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(check(*each)) for each in objects]
        self.problems += [task.result() for task in tasks if task.result()]

    def warnings(self) -> list[str]:
        """Return why objects were not checked, a line for each reason."""
        return [
            f"the API server has not checked {number} of the objects: {reason}"
            for reason, number in self._unchecked.items()
        ]

    async def _kinds(self, version: str) -> dict[str, _Resource]:
        """Return the resources of a version of an API group, by kind."""
        path = f"/apis/{quote(version)}" if "/" in version else f"/api/{quote(version)}"
        try:
            found = await self.api.asked(path, f"the resources of {version}")
        except (NotFound, NotServed):
            return {}
        return {
            each["kind"]: _Resource(path, each["name"], bool(each["namespaced"]))
            for each in found.get("resources", ())
            if "/" not in each["name"]
        }

    async def _problem(self, document: dict[str, Any]) -> str:
        """Return why the API server refuses an object; empty if it does not."""
        kind, metadata = document["kind"], document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            return ""  # the scheduler says so
        resource = self._resources[document["apiVersion"]].get(kind)
        if resource is None:
            return self._unknown(document)
        path, where = self._path(resource, metadata)
        kept = {key: value for key, value in metadata.items() if key not in _ADDED} | where
        body = {key: value for key, value in document.items() if key != "status"}
        try:
            await self.api.dry_run(
                f"{path}?{_QUERY}", {**body, "metadata": kept}, f'{kind} "{name}"'
            )
        except (NotFound, Forbidden) as error:
            return self._refusal(error)
        except ApiError as error:
            if _NO_DRY_RUN not in error.message:
                return error.message
            return self._skip("an admission webhook does not support it")
        return ""

    def _unknown(self, document: dict[str, Any]) -> str:
        if self._defines(document):
            return self._skip("the files define their kinds")
        return f"the API server has no kind {document['kind']} in {document['apiVersion']}"

    def _path(self, resource: _Resource, metadata: dict[str, Any]) -> tuple[str, dict[str, str]]:
        base, name = resource.base, quote(metadata["name"], safe="")
        if not resource.has_namespaces:
            return f"{base}/{resource.plural}/{name}", {}
        namespace = str(metadata.get("namespace") or self.namespace)
        space = quote(namespace, safe="")
        return f"{base}/namespaces/{space}/{resource.plural}/{name}", {"namespace": namespace}

    def _refusal(self, error: ApiError) -> str:
        """Return the refusal, unless it is one for want of a right or of what the files create."""
        if isinstance(error, MissingRight):
            return self._skip("you lack the right to patch them")
        missing = re.search(_MISSING, error.message)
        if missing is not None and set(missing.groups()) & self._created():
            return self._skip("they need what the files create first")
        return error.message

    def _created(self) -> set[str]:
        """Return the names of what other objects need and the files create."""
        found = set()
        for document in self.objects:
            metadata = document.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if document["kind"] in _NEEDED and isinstance(name, str) and name:
                found.add(name)
        return found

    def _defines(self, wanted: dict[str, Any]) -> bool:
        """Return whether the files have the definition of the kind of an object."""
        group = wanted["apiVersion"].partition("/")[0]
        specs = (
            each.get("spec") for each in self.objects if each["kind"] == "CustomResourceDefinition"
        )
        return any(
            isinstance(spec, dict)
            and spec.get("group") == group
            and isinstance(spec.get("names"), dict)
            and spec["names"].get("kind") == wanted["kind"]
            for spec in specs
        )

    def _skip(self, reason: str) -> str:
        """Note that an object is not checked; return that it has no problem."""
        self._unchecked[reason] = self._unchecked.get(reason, 0) + 1
        return ""


def _wrong_fields(document: dict[str, Any]) -> str:
    if object_fields.is_stored(document):
        return ""
    problems = object_fields.problems(document)
    return "; ".join(f"{document['kind']}: {problem}" for problem in problems)
