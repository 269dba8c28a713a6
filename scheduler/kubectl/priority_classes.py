"""PriorityClasses for a plan: the scheduler reads none, so those of the cluster are added.

They are read with the credentials of the user, by `plan` and by the console. A plan is about
objects as the API server would store them, with the number of their PriorityClass.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from scheduler.kube.errors import KubeError
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session

__all__ = ["added", "check", "needed"]

_KIND: Final = "PriorityClass"
_LIST: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_RULE: Final = (
    'a ClusterRole with apiGroups ["scheduling.k8s.io"], resources ["priorityclasses"],'
    ' verbs ["list"]'
)
#: Objects are not searched deeper than this; a pod template of a CronJob has its spec at depth 6.
_DEPTH: Final = 12


def needed(objects: Sequence[dict[str, Any]]) -> bool:
    """Return whether objects have pods whose priority depends on PriorityClasses elsewhere.

    That is so for pods that name a class, and, because of the default class, for pods that say
    nothing about their priority.
    """
    given = _given(objects)
    specs = [spec for each in objects for spec in _pod_specs(each)]
    return any(
        spec.get("priority") is None and spec.get("priorityClassName") not in given
        for spec in specs
    )


async def added(
    session: Session, objects: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """Return objects with the PriorityClasses that they may need, and why these cannot be read.

    Those of the cluster come last, and without those that are given. With an address, the
    kubeconfig may be that of another cluster, so none is read.
    """
    if session.arguments.server or not needed(objects):
        return list(objects), ""
    classes, problem = await _read(session)
    given = _given(objects)
    return [*objects, *(each for each in classes if _name(each) not in given)], problem


def check(objects: Sequence[dict[str, Any]]) -> None:
    """Check that the PriorityClasses that pods name are among the objects.

    Raises:
        CommandError: One is not.
    """
    known = _given(objects)
    for each in objects:
        for spec in _pod_specs(each):
            name = spec.get("priorityClassName")
            if name and spec.get("priority") is None and name not in known:
                raise CommandError(
                    f'{each.get("kind")} "{_name(each)}": there is no PriorityClass "{name}", so'
                    " the API server would refuse its pods",
                    "kubectl get priorityclasses lists those of the cluster; a new one can be"
                    " among the files",
                )


def _given(objects: Sequence[dict[str, Any]]) -> list[object]:
    """Return the names of the PriorityClasses among objects."""
    return [_name(each) for each in objects if each.get("kind") == _KIND]


def _name(document: dict[str, Any]) -> object:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


async def _read(session: Session) -> tuple[list[dict[str, Any]], str]:
    """Return the PriorityClasses of the cluster, and why there are none if they cannot be read."""
    from scheduler.kubectl.api_server import ApiServer  # its import takes long

    try:
        api = ApiServer(session.selection())
    except CommandError as error:
        return [], f"the PriorityClasses of the cluster are not read: {error}"
    try:
        found = await api.get(_LIST, "priorityclasses", _RULE)
    except (CommandError, KubeError) as error:
        return [], f"the PriorityClasses of the cluster cannot be read: {error}"
    finally:
        await api.close()
    items = found.get("items") if isinstance(found, dict) else None
    return [{**each, "kind": _KIND, "apiVersion": "scheduling.k8s.io/v1"} for each in items or ()
            if isinstance(each, dict)], ""  # fmt: skip


def _pod_specs(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield what has containers, in an object or in a template of it."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for item in value.values():
            yield from _pod_specs(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _pod_specs(item, depth + 1)
