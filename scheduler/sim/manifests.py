"""Reads Kubernetes objects from files: YAML or JSON, several documents, lists.

Objects must be as an API server returns them: defaulted and admitted. Kinds that no rule reads are
skipped. Preemption policies count as accepted; a policy that would be refused is an error.
"""

import contextlib
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.model.api import devices, quantity, resources
from scheduler.model.api.devices import DeviceClass, DeviceObject, ResourceClaim
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Workload,
)
from scheduler.model.api.quantity import QuantityError
from scheduler.model.api.storage import (
    CSIStorageCapacity,
    PersistentVolumeClaim,
    Storage,
    amounts,
)
from scheduler.model.policies import PreemptionPolicy
from scheduler.model.releases import REFERENCES, SNAPSHOT_REFERENCE
from scheduler.observe.logs.escape import printable, shortened
from scheduler.sim import yaml_documents
from scheduler.sim.yaml_documents import BadYamlError

__all__ = [
    "ManifestError",
    "Manifests",
    "RawObjects",
    "collect",
    "flattened",
    "keep",
    "load",
    "parsed",
    "read",
    "reference_of",
    "type_of",
    "without_nulls",
]

NamespacedT = TypeVar(
    "NamespacedT",
    PodDisruptionBudget,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    CSIStorageCapacity,
)

#: The longest message, in characters.
_LONGEST: Final = 2000
#: The largest file.
MAX_BYTES: Final = 1 << 30
#: How many values aliases of YAML may stand for.
MAX_VALUES: Final = 1_000_000
_TYPES: Final[dict[tuple[str, str], type[Any]]] = {kind: type_ for type_, kind in KINDS.items()}


class ManifestError(Exception):
    """Input that cannot be read; the message is one line that names the place.

    It may repeat parts of the input, so what does not print is escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(printable(message), _LONGEST))


@dataclass(slots=True)
class RawObjects:
    """Objects as JSON with all their fields; extenders read more fields than rules do."""

    #: By name.
    nodes: dict[str, bytes] = field(default_factory=dict)
    #: By uid.
    pods: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Manifests:
    """The objects of one cluster, in the order of the files."""

    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    namespaces: list[LocalObject] = field(default_factory=list)
    pdbs: list[PodDisruptionBudget] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    storage: list[Storage] = field(default_factory=list)
    device_classes: list[DeviceClass] = field(default_factory=list)
    devices: list[DeviceObject] = field(default_factory=list)
    policies: list[PreemptionPolicy] = field(default_factory=list)
    #: The release of kube-scheduler that the cluster runs, as in the setting; empty if unknown.
    reference: str = ""
    #: `None` unless `read` was called with `raw`.
    raw: RawObjects | None = None


def read(paths: Iterable[str], *, raw: bool = False) -> Manifests:
    """Read files; `-` is standard input.

    Args:
        paths: The files.
        raw: Whether to keep pods and nodes with all their fields, too.

    Raises:
        ManifestError: A file cannot be read, or its content is invalid.
    """
    manifests = Manifests(raw=RawObjects() if raw else None)
    return collect((document for path in paths for document in load(path)), manifests)


def collect(documents: Iterable[tuple[str, Any]], manifests: Manifests) -> Manifests:
    """Add the objects of documents and return all manifests.

    Args:
        documents: Pairs of a document's place, which errors name, and the document.
        manifests: The objects are added to these.

    Raises:
        ManifestError: A document is invalid.
    """
    for where, document in documents:
        try:
            manifests.reference = reference_of(document) or manifests.reference
            for place, item in flattened(document, where):
                _add(manifests, item, place)
        except RecursionError as error:
            raise ManifestError(f"{where}: nested too deeply") from error
    return manifests


def load(path: str) -> Iterator[tuple[str, Any]]:
    """Yield each document of a file with its place; `-` is standard input.

    Raises:
        ManifestError: The file cannot be read.
    """
    shown = "standard input" if path == "-" else path
    try:
        with contextlib.ExitStack() as stack:
            binary = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
            content = binary.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{shown}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ManifestError(f"{shown}: larger than {MAX_BYTES >> 20} MiB")
    yield from parsed(content, shown)


def parsed(content: bytes, shown: str) -> Iterator[tuple[str, Any]]:
    """Yield each document of YAML or JSON with its place.

    Args:
        content: The text.
        shown: What it is, for places and messages.

    Raises:
        ManifestError: It cannot be read.
    """
    if content.lstrip()[:1] == b"{":
        # As kubectl prints it, and too large to be read as YAML in reasonable time.
        document = None
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            document = msgspec.json.decode(content)
        if document is not None:
            yield f"{shown}:1", document
            return
    try:
        text = content.decode("utf-8-sig")
        # Text has no more values than characters, so only aliases are limited.
        for line, document in yaml_documents.documents(text, MAX_VALUES + len(text)):
            yield f"{shown}:{line}", document
    except UnicodeDecodeError as error:
        raise ManifestError(f"{shown}: not UTF-8") from error
    except BadYamlError as error:
        raise ManifestError(f"{shown}:{error.line}: {error}") from error


def reference_of(document: Any) -> str:
    """Return the release that a snapshot names; empty for all other documents."""
    named = document.get(SNAPSHOT_REFERENCE) if isinstance(document, dict) else None
    return named if isinstance(named, str) and named in REFERENCES else ""


def flattened(document: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a document, each with its place; a list yields its items.

    Raises:
        ManifestError: A document is not an object, or an object has no kind or version.
    """
    if document is None:
        return
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: {type_of(document)} is not a Kubernetes object")
    kind, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{where}: not a Kubernetes object (no kind)")
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list | None):
        for index, item in enumerate(items or ()):
            place = f"{where}: items[{index}]"
            typed = _typed(item, kind.removesuffix("List"), version)
            yield from flattened({} if typed is None else typed, place)
        return
    if version is not None and not isinstance(version, str):
        raise ManifestError(f"{where}: {kind}: apiVersion is not a string")
    if not version:
        raise ManifestError(f"{where}: {kind}: apiVersion is missing")
    yield where, document


def _typed(item: Any, kind: str, version: Any) -> Any:
    """Return an item of a list; those of a typed list need not say what they are."""
    if not kind or not isinstance(item, dict) or item.get("kind", kind) != kind:
        return item
    return {"kind": kind, "apiVersion": version, **item}


def type_of(document: Any) -> str:
    """Return in words what a document of YAML or JSON is."""
    match document:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return "a value"


def _add(manifests: Manifests, document: dict[str, Any], where: str) -> None:
    if (document["apiVersion"], document["kind"]) == (policies.API_VERSION, policies.KIND):
        manifests.policies.append(_policy(document, where))
        return
    type_ = _TYPES.get((document["apiVersion"], document["kind"]))
    if type_ is None:
        return
    try:
        document = without_nulls(document)
        item = msgspec.convert(document, type_, strict=False)
        _check(item)
    except (msgspec.ValidationError, QuantityError) as error:
        raise ManifestError(f"{where}: {document['kind']}: {error}") from error
    keep(manifests, item)
    if manifests.raw is not None:
        _keep_raw(manifests.raw, manifests, item, document)


def _policy(document: dict[str, Any], where: str) -> PreemptionPolicy:
    """Return a policy.

    Raises:
        ManifestError: The policy has no name, or would be refused; the message has all problems.
    """
    try:
        policy = policies.read(without_nulls(document))
    except PolicyError as error:
        raise ManifestError(f"{where}: {policies.KIND}: {error}") from error
    if not policy.name:
        raise ManifestError(f"{where}: {policies.KIND}: metadata.name is missing")
    return policy


def _keep_raw(raw: RawObjects, manifests: Manifests, item: Any, document: dict[str, Any]) -> None:
    """Add a pod or a node with all its fields; objects of other kinds are not kept so."""
    if isinstance(item, Node):
        raw.nodes[item.metadata.name] = msgspec.json.encode(document)
    elif isinstance(item, Pod):
        identity = manifests.pods[-1].metadata
        given = {"namespace": identity.namespace, "uid": identity.uid}
        metadata = {**document["metadata"], **given}
        raw.pods[identity.uid] = msgspec.json.encode({**document, "metadata": metadata})


def keep(manifests: Manifests, item: Any) -> None:
    """Add an object to the list of its kind."""
    if isinstance(item, get_args(Storage)):
        manifests.storage.append(_as_stored(item))
        return
    if isinstance(item, get_args(DeviceObject)):
        manifests.devices.append(_as_claim(item) if isinstance(item, ResourceClaim) else item)
        return
    match item:
        case Pod():
            manifests.pods.append(_identified(item))
        case Node():
            manifests.nodes.append(item)
        case PodDisruptionBudget():
            manifests.pdbs.append(_in_namespace(item))
        case LocalObject():
            manifests.namespaces.append(item)
        case DeviceClass():
            manifests.device_classes.append(item)
        case _:
            manifests.workloads.append(_in_namespace(item))


def _check(
    item: Pod
    | Node
    | PodDisruptionBudget
    | LocalObject
    | Workload
    | Storage
    | DeviceClass
    | DeviceObject,
) -> None:
    """Reject an object with values that would be ignored silently later.

    Raises:
        QuantityError: An amount is not a quantity.
        ValidationError: The object has no name.
    """
    if not item.metadata.name:
        raise msgspec.ValidationError("metadata.name is missing")
    if isinstance(item, Pod):
        resources.pod_requests(item, status_aware=True)
    elif isinstance(item, Node):
        resources.amounts(item.status.allocatable)
    elif isinstance(item, get_args(Storage)):
        for amount in amounts(item):
            quantity.exact(amount)
    elif isinstance(item, get_args(DeviceObject)):
        for amount in devices.amounts(item):
            quantity.exact(amount)


def _identified(pod: Pod) -> Pod:
    """Return a pod with the namespace and uid that an API server would have given it."""
    namespace = pod.metadata.namespace or "default"
    uid = pod.uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{pod.metadata.name}.{namespace}.pod"))
    metadata = msgspec.structs.replace(pod.metadata, namespace=namespace, uid=uid)
    return msgspec.structs.replace(pod, metadata=metadata)


def _as_stored(item: Storage) -> Storage:
    """Return an object with the namespace and uid that an API server would have given it."""
    if isinstance(item, CSIStorageCapacity):
        return _in_namespace(item)
    if not isinstance(item, PersistentVolumeClaim):
        return item
    namespace = item.metadata.namespace or "default"
    named = f"{item.metadata.name}.{namespace}.persistentvolumeclaim"
    uid = item.metadata.uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, named))
    metadata = msgspec.structs.replace(item.metadata, namespace=namespace, uid=uid)
    return msgspec.structs.replace(item, metadata=metadata)


def _as_claim(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim with the namespace and uid that an API server would have given it."""
    namespace = claim.metadata.namespace or "default"
    named = f"{claim.metadata.name}.{namespace}.resourceclaim"
    uid = claim.uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, named))
    metadata = msgspec.structs.replace(claim.metadata, namespace=namespace, uid=uid)
    return msgspec.structs.replace(claim, metadata=metadata)


def _in_namespace(item: NamespacedT) -> NamespacedT:
    """Return an object with the namespace that an API server would have given it."""
    namespace = item.metadata.namespace or "default"
    return msgspec.structs.replace(
        item, metadata=msgspec.structs.replace(item.metadata, namespace=namespace)
    )


def without_nulls(value: Any) -> Any:
    """Return the value without null fields; YAML time stamps become strings again."""
    if isinstance(value, dict):
        return {str(key): without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value
