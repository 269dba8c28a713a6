"""What is watched: one row per kind of object.

A new kind is a new row here, with its events in `scheduler.model.events`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    Event,
    NamespaceGone,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.objects import (
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

__all__ = ["BUDGETS", "NAMESPACES", "NODES", "PODS", "RESOURCES", "ApiObject", "Resource"]


class ApiObject(Protocol):
    """Anything with identity."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid and version."""


ObjectT = TypeVar("ObjectT", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Resource(Generic[ObjectT]):
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


def _budget_gone(key: str, _: str) -> Event:
    return BudgetGone(key)


def _namespace_gone(name: str, _: str) -> Event:
    return NamespaceGone(name)


def _node_gone(name: str, _: str) -> Event:
    return NodeGone(name)


PODS: Final = Resource(
    name="pods",
    path="/api/v1/pods",
    type=Pod,
    observed=PodObserved,
    gone=PodGone,
    # Source: kube-scheduler v1.36.3 scheduler.newPodInformer.
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES: Final = Resource(
    name="nodes",
    path="/api/v1/nodes",
    type=Node,
    observed=NodeObserved,
    gone=_node_gone,
)
BUDGETS: Final = Resource(
    name="poddisruptionbudgets",
    path="/apis/policy/v1/poddisruptionbudgets",
    type=PodDisruptionBudget,
    observed=BudgetObserved,
    gone=_budget_gone,
    optional=True,
)
NAMESPACES: Final = Resource(
    name="namespaces",
    path="/api/v1/namespaces",
    type=LocalObject,
    observed=NamespaceObserved,
    gone=_namespace_gone,
)


def _workloads(path: str, kind: type[Workload], *, optional: bool = False) -> Resource[Any]:
    """Return a kind of workload; default topology spreading reads their selectors."""

    def gone(key: str, _: str) -> Event:
        return WorkloadGone(kind.__name__, key)

    name = path.rpartition("/")[2]
    return Resource(name, path, kind, WorkloadObserved, gone, optional=optional)


SERVICES: Final = _workloads("/api/v1/services", Service)
REPLICATION_CONTROLLERS: Final = _workloads("/api/v1/replicationcontrollers", ReplicationController)
REPLICA_SETS: Final = _workloads("/apis/apps/v1/replicasets", ReplicaSet, optional=True)
STATEFUL_SETS: Final = _workloads("/apis/apps/v1/statefulsets", StatefulSet, optional=True)

#: Everything that the scheduler watches. Nodes come before pods, so that pods find theirs.
RESOURCES: Final[tuple[Resource[Any], ...]] = (
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    PODS,
    BUDGETS,
)
