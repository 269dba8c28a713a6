"""What is watched: one row per kind of object.

A new kind is a new row here, with its events in `scheduler.model.events` and its name in
`scheduler.model.api.kinds`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from scheduler.model.api.devices import (
    DeviceClass,
    DeviceObject,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Workload,
)
from scheduler.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    Event,
    NamespaceGone,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)

__all__ = ["NAMESPACES", "NODES", "PDBS", "PODS", "RESOURCES", "ApiObject", "ApiResource"]


class ApiObject(Protocol):
    """Anything with identity."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid and version."""


ObjectT = TypeVar("ObjectT", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class ApiResource(Generic[ObjectT]):
    """A kind of object to watch, and its events."""

    #: Plural, as RBAC and metrics name it.
    name: str
    #: Of the whole cluster, below the server's URL.
    path: str
    type: type[ObjectT]
    observed: Callable[[ObjectT], Event]
    #: From key (`namespace/name`, or the name where there is no namespace) and uid.
    gone: Callable[[str, str], Event]
    #: Objects outside it do not come; one that leaves it comes as deleted.
    field_selector: str = ""
    #: Whether a server that does not know the resource is taken for one that has no objects.
    optional: bool = False
    #: The kind of the objects where the type is not in `KINDS`.
    named: str = ""

    @property
    def kind(self) -> str:
        """The kind of the objects as the API names it, such as `Pod`."""
        return self.named or KINDS[self.type].name


def _path(kind: type[Any], name: str) -> str:
    """Return the path of all objects of a type, by its plural name."""
    version = KINDS[kind].api_version
    return f"/{'apis' if '/' in version else 'api'}/{version}/{name}"


def _pdb_gone(key: str, _: str) -> Event:
    return BudgetGone(key)


def _namespace_gone(name: str, _: str) -> Event:
    return NamespaceGone(name)


def _node_gone(name: str, _: str) -> Event:
    return NodeGone(name)


def _device_class_gone(name: str, _: str) -> Event:
    return DeviceClassGone(name)


PODS: Final = ApiResource(
    name="pods",
    path=_path(Pod, "pods"),
    type=Pod,
    observed=PodObserved,
    gone=PodGone,
    # Source: kube-scheduler v1.36.3 scheduler.newPodInformer.
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES: Final = ApiResource(
    name="nodes",
    path=_path(Node, "nodes"),
    type=Node,
    observed=NodeObserved,
    gone=_node_gone,
)
DEVICE_CLASSES: Final = ApiResource(
    name="deviceclasses",
    path=_path(DeviceClass, "deviceclasses"),
    type=DeviceClass,
    observed=DeviceClassObserved,
    gone=_device_class_gone,
    optional=True,
)
PDBS: Final = ApiResource(
    name="poddisruptionbudgets",
    path=_path(PodDisruptionBudget, "poddisruptionbudgets"),
    type=PodDisruptionBudget,
    observed=BudgetObserved,
    gone=_pdb_gone,
    optional=True,
)
NAMESPACES: Final = ApiResource(
    name="namespaces",
    path=_path(LocalObject, "namespaces"),
    type=LocalObject,
    observed=NamespaceObserved,
    gone=_namespace_gone,
)


def _devices(kind: type[DeviceObject], name: str) -> ApiResource[Any]:
    """Return a kind of objects of dynamic resource allocation; servers before v1.34 have none."""

    def gone(key: str, _: str) -> Event:
        return DevicesGone(kind.__name__, key)

    path = _path(kind, name)
    return ApiResource(name, path, kind, DevicesObserved, gone, optional=True)


#: Objects of dynamic resource allocation.
DEVICES: Final = (
    _devices(ResourceSlice, "resourceslices"),
    # Served from Kubernetes 1.37 on, and without effect before.
    _devices(DeviceTaintRule, "devicetaintrules"),
    _devices(ResourceClaim, "resourceclaims"),
)


def _workloads(kind: type[Workload], name: str, *, optional: bool = False) -> ApiResource[Any]:
    """Return a kind of workload; default topology spreading reads their selectors."""

    def gone(key: str, _: str) -> Event:
        return WorkloadGone(kind.__name__, key)

    return ApiResource(name, _path(kind, name), kind, WorkloadObserved, gone, optional=optional)


SERVICES: Final = _workloads(Service, "services")
REPLICATION_CONTROLLERS: Final = _workloads(ReplicationController, "replicationcontrollers")
REPLICA_SETS: Final = _workloads(ReplicaSet, "replicasets", optional=True)
STATEFUL_SETS: Final = _workloads(StatefulSet, "statefulsets", optional=True)


def _storage(kind: type[Storage], name: str) -> ApiResource[Any]:
    """Return a kind of storage object; the volume plugins read them."""

    def gone(key: str, _: str) -> Event:
        return StorageGone(kind.__name__, key)

    return ApiResource(name, _path(kind, name), kind, StorageObserved, gone)


STORAGE: Final = (
    _storage(StorageClass, "storageclasses"),
    _storage(CSIDriver, "csidrivers"),
    _storage(CSINode, "csinodes"),
    _storage(CSIStorageCapacity, "csistoragecapacities"),
    _storage(VolumeAttachment, "volumeattachments"),
    _storage(PersistentVolume, "persistentvolumes"),
    _storage(PersistentVolumeClaim, "persistentvolumeclaims"),
)

#: Everything that the scheduler watches. Nodes and storage come before pods, so that pods
#: find theirs.
RESOURCES: Final[tuple[ApiResource[Any], ...]] = (
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    *STORAGE,
    DEVICE_CLASSES,
    *DEVICES,
    PODS,
    PDBS,
)
