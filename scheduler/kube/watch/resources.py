"""What is watched: one row per kind of object.

A new kind is a new row here, with its events in `scheduler.model.events`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from scheduler.model.api.objects import (
    DeviceClass,
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

__all__ = ["BUDGETS", "NAMESPACES", "NODES", "PODS", "RESOURCES", "ApiObject", "ApiResource"]


class ApiObject(Protocol):
    """Anything with identity."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid and version."""


ObjectT = TypeVar("ObjectT", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class ApiResource(Generic[ObjectT]):
    """A kind of object to watch, and the events that tell of it."""

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
    #: Of the objects, where that is not the name of the type.
    named: str = ""

    @property
    def kind(self) -> str:
        """The kind of the objects as the API names it, such as `Pod`."""
        return self.named or self.type.__name__


def _budget_gone(key: str, _: str) -> Event:
    return BudgetGone(key)


def _namespace_gone(name: str, _: str) -> Event:
    return NamespaceGone(name)


def _node_gone(name: str, _: str) -> Event:
    return NodeGone(name)


def _device_class_gone(name: str, _: str) -> Event:
    return DeviceClassGone(name)


PODS: Final = ApiResource(
    name="pods",
    path="/api/v1/pods",
    type=Pod,
    observed=PodObserved,
    gone=PodGone,
    # Source: kube-scheduler v1.36.3 scheduler.newPodInformer.
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES: Final = ApiResource(
    name="nodes",
    path="/api/v1/nodes",
    type=Node,
    observed=NodeObserved,
    gone=_node_gone,
)
DEVICE_CLASSES: Final = ApiResource(
    name="deviceclasses",
    path="/apis/resource.k8s.io/v1/deviceclasses",
    type=DeviceClass,
    observed=DeviceClassObserved,
    gone=_device_class_gone,
    optional=True,
)
BUDGETS: Final = ApiResource(
    name="poddisruptionbudgets",
    path="/apis/policy/v1/poddisruptionbudgets",
    type=PodDisruptionBudget,
    observed=BudgetObserved,
    gone=_budget_gone,
    optional=True,
)
NAMESPACES: Final = ApiResource(
    name="namespaces",
    path="/api/v1/namespaces",
    type=LocalObject,
    observed=NamespaceObserved,
    gone=_namespace_gone,
    named="Namespace",
)


def _workloads(path: str, kind: type[Workload], *, optional: bool = False) -> ApiResource[Any]:
    """Return a kind of workload; default topology spreading reads their selectors."""

    def gone(key: str, _: str) -> Event:
        return WorkloadGone(kind.__name__, key)

    name = path.rpartition("/")[2]
    return ApiResource(name, path, kind, WorkloadObserved, gone, optional=optional)


SERVICES: Final = _workloads("/api/v1/services", Service)
REPLICATION_CONTROLLERS: Final = _workloads("/api/v1/replicationcontrollers", ReplicationController)
REPLICA_SETS: Final = _workloads("/apis/apps/v1/replicasets", ReplicaSet, optional=True)
STATEFUL_SETS: Final = _workloads("/apis/apps/v1/statefulsets", StatefulSet, optional=True)


def _storage(path: str, kind: type[Storage]) -> ApiResource[Any]:
    """Return a kind of storage object; the volume rules read them."""

    def gone(key: str, _: str) -> Event:
        return StorageGone(kind.__name__, key)

    name = path.rpartition("/")[2]
    return ApiResource(name, path, kind, StorageObserved, gone)


_STORAGE_GROUP: Final = "/apis/storage.k8s.io/v1"
STORAGE: Final = (
    _storage(f"{_STORAGE_GROUP}/storageclasses", StorageClass),
    _storage(f"{_STORAGE_GROUP}/csidrivers", CSIDriver),
    _storage(f"{_STORAGE_GROUP}/csinodes", CSINode),
    _storage(f"{_STORAGE_GROUP}/csistoragecapacities", CSIStorageCapacity),
    _storage(f"{_STORAGE_GROUP}/volumeattachments", VolumeAttachment),
    _storage("/api/v1/persistentvolumes", PersistentVolume),
    _storage("/api/v1/persistentvolumeclaims", PersistentVolumeClaim),
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
    PODS,
    BUDGETS,
)
