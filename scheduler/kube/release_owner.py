"""The Deployment of this process owns what the process creates: the lease and the ledger.

They are not part of the manifests, which would empty them whenever they are replaced. As dependents
of the Deployment they are deleted with it, by the garbage collector. Nothing depends on that: if
the Deployment cannot be read, or the reference is refused, they are written without one.

The garbage collector deletes an object whose owners do not exist. So the Deployment is looked up
right before a reference to it is added, in the namespace of the object.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Forbidden, KubeError, NotFound
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.model.times import Seconds

__all__ = ["ReleaseOwner"]

#: The lease must not wait for long.
ANSWER_SECONDS: Final = 1.0
#: After the Deployment could not be read, existing objects stay without a reference for so long.
PAUSE_SECONDS: Final[Seconds] = 300.0
#: How the API server refuses an object as invalid.
_INVALID: Final = (400, 422)

_T = TypeVar("_T")


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    selector: _Selector = msgspec.field(default_factory=_Selector)


class _Deployment(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_DEPLOYMENT: Final = msgspec.json.Decoder(_Deployment)


class ReleaseOwner:
    """Adds the Deployment to the owners of objects that are written, and its labels.

    Args:
        namespace: Of the Deployment and of the objects.
        name: Of the Deployment; empty for no owner.
        elapsed: Seconds that never go backwards; only differences mean something.
    """

    def __init__(self, namespace: str, name: str, elapsed: Callable[[], Seconds]) -> None:
        self._namespace = namespace
        self._name = name
        self._elapsed = elapsed
        #: As it was last read. It is kept when the Deployment is gone, so that what is created
        #: while the release is uninstalled is deleted, too.
        self._known = _Deployment()
        #: Existing objects are left as they are until then.
        self._next_look: Seconds = -PAUSE_SECONDS
        #: Whether the API server has refused to change the owners of an object.
        self._refused = False

    async def write(
        self,
        client: Client,
        metadata: Mapping[str, Any],
        send: Callable[[dict[str, Any]], Awaitable[_T]],
    ) -> _T:
        """Write an object; return what `send` returns.

        Args:
            client: Looks up the Deployment, and is told why there is no owner.
            metadata: Of the object as last seen; without a version it is to be created.
            send: Sends it with these fields of its metadata changed.

        Raises:
            KubeError: `send` has failed, also without an owner.
        """
        changes = await self._changes(client, metadata)
        if not changes:
            return await send({})
        try:
            return await send(changes)
        except ApiError as error:
            if not isinstance(error, Forbidden) and error.status not in _INVALID:
                raise
            answer = await send({})
            self._refused = True
            client.observer.unowned(str(error))
            return answer

    async def _changes(self, client: Client, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the metadata that make the Deployment the owner."""
        is_new = not metadata.get("resourceVersion")
        given = metadata.get("ownerReferences")
        listed = given if isinstance(given, list) else []
        owners = [each for each in listed if isinstance(each, dict)]
        if not self._name or self._is_among(owners):
            return {}
        if not is_new and (self._refused or self._elapsed() < self._next_look):
            return {}
        exists = await self._look(client)
        if not self._known.metadata.uid or not (exists or is_new):
            return {}
        kept = [each for each in owners if not self._is_predecessor(each)]
        labels = metadata.get("labels") or {}
        return {
            "ownerReferences": [*kept, self._reference()],
            "labels": {**labels, **self._known.spec.selector.match_labels},
        }

    def _is_among(self, owners: list[dict[str, Any]]) -> bool:
        uid = self._known.metadata.uid
        return bool(uid) and any(each.get("uid") == uid for each in owners)

    def _is_predecessor(self, owner: Mapping[str, Any]) -> bool:
        """Return whether an owner is a Deployment of this name that does not exist any more."""
        return owner.get("kind") == "Deployment" and owner.get("name") == self._name

    def _reference(self) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": self._name,
            "uid": self._known.metadata.uid,
            "blockOwnerDeletion": False,
        }

    async def _look(self, client: Client) -> bool:
        """Look up the Deployment; return whether it exists."""
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{self._name}"
        request = Request("get", "deployments", "GET", path, answer_seconds=ANSWER_SECONDS)
        try:
            self._known = _DEPLOYMENT.decode(await client.call(request))
        except (KubeError, *UNREADABLE) as error:
            self._next_look = self._elapsed() + PAUSE_SECONDS
            if not (isinstance(error, NotFound) and self._known.metadata.uid):
                client.observer.unowned(str(error))
            return False
        return True
