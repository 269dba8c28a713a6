"""What the API server in this process stores, and how requests change it.

No HTTP here: `tests.support.fake_api` serves it.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["LISTS", "Change", "Object", "Refusal", "Store", "Target", "expired", "selects"]

Object = dict[str, Any]

LISTS: Final = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    "preemptionpolicies": ("preemptive-scheduler.io/v1alpha1", "PreemptionPolicy"),
    "configmaps": ("v1", "ConfigMap"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "events": ("events.k8s.io/v1", "Event"),
    "deployments": ("apps/v1", "Deployment"),
}
#: Conditions are merged by type; everything else in a status patch is replaced or removed.
MERGED_BY_TYPE: Final = "conditions"
#: Metadata that a patch replaces.
OWNED: Final = ("ownerReferences", "labels")


class Refusal(Exception):
    """An answer that is not a success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


@dataclass(frozen=True)
class Target:
    """What a path points at."""

    kind: str
    namespace: str
    name: str
    sub: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Change:
    version: int
    kind: str
    old: Object | None
    new: Object | None


class Store:
    """All objects, and what happened to them since the last compaction."""

    def __init__(self) -> None:
        #: Called with every change.
        self.listeners: list[Callable[[Change], None]] = []
        self.version = 100
        self.oldest = 0
        self.changes: list[Change] = []
        #: What existed when a list in pages began, by kind and version.
        self._listed: dict[tuple[str, int], dict[str, Object]] = {}
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in LISTS}

    def put(self, kind: str, each: Object, *, uid: str = "") -> Object:
        """Create or replace an object, as its controllers would."""
        new = json.loads(json.dumps(each))
        api_version, name = LISTS[kind]
        metadata = new["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        old = self._objects[kind].get(key)
        self.version += 1
        metadata["uid"] = (
            uid or metadata.get("uid") or (old["metadata"]["uid"] if old else f"uid-{self.version}")
        )
        metadata["resourceVersion"] = str(self.version)
        self._objects[kind][key] = {"apiVersion": api_version, "kind": name, **new}
        self._changed(kind, old, self._objects[kind][key])
        return self._objects[kind][key]

    def get(self, kind: str, key: str) -> Object:
        """Return an object."""
        return self._objects[kind][key]

    def has(self, kind: str, key: str) -> bool:
        """Whether an object exists."""
        return key in self._objects[kind]

    def all(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""
        return list(self._objects[kind].values())

    def remove(self, kind: str, key: str) -> None:
        """Delete an object at once."""
        old = self._objects[kind].pop(key)
        self.version += 1
        self._changed(kind, old, None)

    def compact(self) -> None:
        """Forget all history, so that older watches and pages expire."""
        self.oldest = self.version
        self.changes.clear()
        self._listed.clear()

    def turn_back(self, versions: int) -> None:
        """Have lower versions from now on, and no history, as an etcd that was restored."""
        self.version -= versions
        self.compact()

    def execute(
        self, verb: str, target: Target, query: Mapping[str, str], sent: Object
    ) -> tuple[int, Object]:
        """Do what a request asks for; return status and answer."""
        if verb == "list":
            return 200, self._page(target.kind, query)
        if verb == "create" and target.sub == "binding":
            return 201, self._bind(target, sent)
        if verb == "create":
            return 201, self._create(target, sent)
        found = self._objects[target.kind].get(target.key)
        if found is None:
            raise Refusal(404, "NotFound", f'{target.kind} "{target.name}" not found')
        actions: dict[str, Callable[[Target, Object, Object], Object]] = {
            "get": lambda _target, _sent, found: found,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }
        return 200, actions[verb](target, sent, found)

    def _page(self, kind: str, query: Mapping[str, str]) -> Object:
        selector = query.get("fieldSelector", "")
        limit = int(query.get("limit", "0"))
        version, begin, objects = self.version, "", self._objects[kind]
        if token := query.get("continue", ""):
            at, begin = base64.urlsafe_b64decode(token).decode().split(":", 1)
            version = int(at)
            if (kind, version) not in self._listed:
                raise expired()
            objects = self._listed[kind, version]
        keys = sorted(
            key for key, each in objects.items() if key > begin and selects(selector, each)
        )
        page = keys[:limit] if limit else keys
        metadata = {"resourceVersion": str(version)}
        if len(page) < len(keys):
            # All pages show what existed at the version of the first one.
            self._listed.setdefault((kind, version), dict(objects))
            token = base64.urlsafe_b64encode(f"{version}:{page[-1]}".encode()).decode()
            metadata["continue"] = token
        api_version, name = LISTS[kind]
        return {
            "kind": f"{name}List",
            "apiVersion": api_version,
            "metadata": metadata,
            "items": [objects[key] for key in page],
        }

    def _changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        change = Change(self.version, kind, old, new)
        self.changes.append(change)
        for listener in self.listeners:
            listener(change)

    def _bind(self, target: Target, binding: Object) -> Object:
        found = self._objects["pods"].get(target.key)
        if found is None:
            raise Refusal(404, "NotFound", f'pods "{target.name}" not found')
        uid, has = binding["metadata"].get("uid"), found["metadata"]["uid"]
        if uid and uid != has:
            problem = (
                f'Operation cannot be fulfilled on pods "{target.name}": Precondition failed:'
                f" UID in precondition: {uid}, UID in object meta: {has}"
            )
            raise Refusal(409, "Conflict", problem)
        refused = f'Operation cannot be fulfilled on pods/binding "{target.name}": '
        bound = found["spec"].get("nodeName")
        if found["metadata"].get("deletionTimestamp"):
            problem = f"pod {target.name} is being deleted, cannot be assigned to a host"
            raise Refusal(409, "Conflict", refused + problem)
        if bound:
            problem = f'pod {target.name} is already assigned to node "{bound}"'
            raise Refusal(409, "Conflict", refused + problem)
        status = dict(found["status"])
        status.pop("nominatedNodeName", None)
        _merge_conditions(status, [{"type": "PodScheduled", "status": "True"}])
        spec = {**found["spec"], "nodeName": binding["target"]["name"]}
        self.put("pods", {**found, "spec": spec, "status": status})
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _create(self, target: Target, sent: Object) -> Object:
        name = sent["metadata"]["name"]
        created = Target(target.kind, target.namespace, name, "")
        if created.key in self._objects[target.kind]:
            raise Refusal(409, "AlreadyExists", f'{target.kind} "{name}" already exists')
        sent["metadata"]["namespace"] = target.namespace
        if target.kind == "pods":
            sent["status"] = {"phase": "Pending"}
        return self.put(target.kind, sent)

    def _update(self, target: Target, sent: Object, found: Object) -> Object:
        _check_version(target, sent, found)
        return self.put(target.kind, sent)

    def _patch(self, target: Target, sent: Object, found: Object) -> Object:
        if isinstance(sent, list):
            return self._patch_status(target, sent, found)
        uid = sent.get("metadata", {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            message = f'Pod "{target.name}" is invalid: metadata.uid: Invalid value: "{uid}"'
            raise Refusal(422, "Invalid", message)
        _check_version(target, sent, found)
        new = {**found}
        for part, patch in sent.items():
            if part == "metadata":
                new[part] = _annotated(found[part], patch.get("annotations") or {})
                new[part] |= {key: patch[key] for key in OWNED if key in patch}
                continue
            new[part] = {**found.get(part, {})}
            if patch is None:
                del new[part]
                continue
            for name, value in patch.items():
                if name == MERGED_BY_TYPE:
                    _merge_conditions(new[part], value)
                elif value is None:
                    new[part].pop(name, None)
                else:
                    new[part][name] = value
        return self.put(target.kind, new)

    def _patch_status(self, target: Target, sent: list[Object], found: Object) -> Object:
        """Replace the status as a JSON patch says that first tests the uid."""
        test, add = sent
        if test["value"] != found["metadata"]["uid"]:
            message = "the server rejected our request due to an error in our request"
            raise Refusal(422, "Invalid", message)
        assert (test["path"], add["path"]) == ("/metadata/uid", "/status")
        return self.put(target.kind, {**found, "status": add["value"]})

    def _delete(self, target: Target, options: Object, found: Object) -> Object:
        uid = options.get("preconditions", {}).get("uid")
        has = found["metadata"]["uid"]
        if uid and uid != has:
            problem = (
                f'Operation cannot be fulfilled on Pod "{target.name}": the UID in the precondition'
                f" ({uid}) does not match the UID in record ({has})"
            )
            raise Refusal(409, "Conflict", problem)
        graceful = found["spec"].get("nodeName") and options.get("gracePeriodSeconds") != 0
        if not graceful:
            self.remove(target.kind, target.key)
        elif not found["metadata"].get("deletionTimestamp"):
            metadata = {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.put(target.kind, {**found, "metadata": metadata})
        return found


def selects(selector: str, each: Object) -> bool:
    """Whether a field selector lets an object through."""
    for term in filter(None, selector.split(",")):
        path, value = term.split("!=")
        found: Any = each
        for name in path.split("."):
            found = found.get(name, "")
        if found == value:
            return False
    return True


def expired() -> Refusal:
    """Return the answer to a request for history that was compacted."""
    return Refusal(410, "Expired", "too old resource version")


def _check_version(target: Target, sent: Object, found: Object) -> None:
    version = sent.get("metadata", {}).get("resourceVersion")
    if version and version != found["metadata"]["resourceVersion"]:
        raise Refusal(409, "Conflict", f'"{target.name}": the object has been modified')


def _annotated(metadata: Object, changes: Object) -> Object:
    """Return metadata with annotations changed; those without a value are taken away."""
    kept = {**metadata.get("annotations", {}), **changes}
    annotations = {name: value for name, value in kept.items() if value is not None}
    return {**metadata, "annotations": annotations} if changes else metadata


def _merge_conditions(status: Object, patches: list[Object]) -> None:
    merged = {each["type"]: each for each in status.get("conditions", [])}
    for patch in patches:
        if patch.get("$patch") == "delete":
            merged.pop(patch["type"], None)
            continue
        both = {**merged.get(patch["type"], {}), **patch}
        merged[patch["type"]] = {key: each for key, each in both.items() if each is not None}
    status["conditions"] = list(merged.values())
