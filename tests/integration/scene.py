"""One test's part of a control plane: a namespace, nodes of its own, and what happened there."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.nodes import NodeShape
from tests.integration.followed import Followed
from tests.integration.objects import (
    Json,
    condition,
    is_bound,
    is_gone,
    is_rejected,
    is_running,
)
from tests.integration.objects import pod as new_pod

#: All nodes of all tests have names of their own, so nothing is taken for what it was before.
_numbers = itertools.count(1)


class Scene:
    """Creates objects and waits for what becomes of them.

    Attributes:
        plane: the control plane.
        namespace: where all pods are.
        scheduler_name: the schedulerName of pods that name no other.
    """

    def __init__(self, plane: ControlPlane, namespace: str, scheduler_name: str) -> None:
        self.plane = plane
        self.api = plane.api
        self.namespace = namespace
        self.scheduler_name = scheduler_name
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._followed = Followed(self.api, self._pods)
        #: The millicores of each node.
        self._nodes: dict[str, int] = {}

    # Create

    def nodes(self, count: int, cpu: str = "4", **shape: Any) -> list[str]:
        """Create nodes and wait until they are ready; return their names."""
        prefix = f"n{next(_numbers)}"
        self._nodes |= {f"{prefix}-{i}": millicores(cpu) for i in range(count)}
        return self.plane.create_nodes(count, NodeShape(cpu=cpu, **shape), prefix=prefix)

    def node(self, cpu: str = "4", **shape: Any) -> str:
        """Create one node; return its name."""
        return self.nodes(1, cpu, **shape)[0]

    def create(self, *pods: Json) -> list[Json]:
        """Create pods at once."""
        for each in pods:
            each["spec"].setdefault("schedulerName", self.scheduler_name)
        return self.api.post_all(self._pods, pods)

    def deploy(self, name: str, replicas: int, template: Json) -> None:
        """Create a Deployment of pods like this one; its label `app` selects them."""
        template["spec"].setdefault("schedulerName", self.scheduler_name)
        selector = {"matchLabels": {"app": template["metadata"]["labels"]["app"]}}
        del template["metadata"]["name"]
        spec = {"replicas": replicas, "selector": selector, "template": template}
        deployments = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self.api.post(deployments, {"metadata": {"name": name}, "spec": spec})

    def run(self, *pods: Json) -> None:
        """Create pods that have their node and wait until they run."""
        self.create(*pods)
        for each in pods:
            self.wait(each["metadata"]["name"], is_running)

    # Change

    def patch_node(self, name: str, change: Json) -> None:
        """Change a node by a merge patch."""
        self.api.patch(f"/api/v1/nodes/{name}", change)

    def remove_node(self, name: str) -> None:
        """Delete a node and wait until it is deleted."""
        self.api.delete(f"/api/v1/nodes/{name}")
        self.api.wait_for(f"/api/v1/nodes/{name}", is_gone)

    def remove(self, name: str) -> None:
        """Delete a pod without a grace period and wait until it is deleted."""
        self.api.delete(f"{self._pods}/{name}", gracePeriodSeconds="0")
        self.wait(name, is_gone)

    def let_go(self, *names: str) -> None:
        """Let pods that hang in termination end."""
        for name in names:
            change = {"metadata": {"annotations": {"pod-delete.stage.kwok.x-k8s.io/delay": None}}}
            self.api.patch(f"{self._pods}/{name}", change)

    def bind(self, name: str, node: str) -> None:
        """Put a pod on a node, as some other scheduler would."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.api.post(f"{self._pods}/{name}/binding", body)

    def nominate(self, name: str, node: str) -> None:
        """Write a nomination into the status of a pod, as its scheduler would."""
        self.api.patch(f"{self._pods}/{name}/status", {"status": {"nominatedNodeName": node}})

    # Look

    def path(self, name: str) -> str:
        """Return the API path of a pod."""
        return f"{self._pods}/{name}"

    def pod(self, name: str) -> Json:
        """Read a pod."""
        return self.api.get(self.path(name))

    def wait(self, name: str, predicate: Callable[[Json | None], bool]) -> Json:
        """Wait until a pod satisfies a predicate; return it, or {} if there is none."""
        return self.api.wait_for(self.path(name), predicate) or {}

    def wait_bound(self, name: str) -> str:
        """Wait until a pod has a node; return its name."""
        node: str = self.wait(name, is_bound)["spec"]["nodeName"]
        return node

    def wait_bound_count(self, count: int) -> set[str]:
        """Wait until so many pods have a node; return the names of the others."""

        def predicate(found: list[Json]) -> bool:
            return sum(map(is_bound, found)) == count

        found = self.wait_pods(predicate)
        return {each["metadata"]["name"] for each in found if not is_bound(each)}

    def wait_pods(self, predicate: Callable[[list[Json]], bool]) -> list[Json]:
        """Wait until the pods satisfy a predicate; return them."""
        return self.api.wait_for_list(self._pods, predicate)

    def wait_running(self, *names: str) -> dict[str, str]:
        """Wait until pods run; return the node of each."""
        return {name: self.wait(name, is_running)["spec"]["nodeName"] for name in names}

    def wait_rejected(self, name: str, message: str = "") -> str:
        """Wait until a pod's condition says that it fits nowhere; return the message."""
        found = self.wait(name, is_rejected(message))
        said: str = condition(found, "PodScheduled")["message"]
        return said

    def requested(self) -> dict[str, int]:
        """Return how many millicores the pods on each node ask for."""
        taken: Counter[str] = Counter()
        for each in filter(is_bound, self.api.items(self._pods)):
            taken[each["spec"]["nodeName"]] += requested(each)
        return dict(taken)

    def events(self, name: str, reason: str, count: int = 1) -> list[Json]:
        """Wait until there are so many Events about a pod with this reason; return them."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"

        def about(found: list[Json]) -> list[Json]:
            return [
                each
                for each in found
                if each["regarding"]["name"] == name and each["reason"] == reason
            ]

        return about(self.api.wait_for_list(path, lambda found: len(about(found)) >= count))

    def history(self) -> "History":
        """Return what happened to the pods since the scene began."""
        (marker,) = self.create(new_pod(f"marker-{next(_numbers)}", by="no-scheduler"))
        return History(self.changes_until(marker))

    def changes_until(self, marker: Json) -> list[tuple[str, Json]]:
        """Return (type, pod) of all changes since the scene began, up to the creation of a pod."""
        return self._followed.until(marker)

    # End

    def audit(self) -> None:
        """Assert what must hold at every moment, whatever the test was about."""
        history = self.history()
        history.check_capacity(self._nodes)
        history.check_victims()
        history.check_bindings()

    def clear(self) -> None:
        """Remove nodes and pods, and wait until none is left."""
        self._followed.stop()
        self.api.delete(f"/apis/apps/v1/namespaces/{self.namespace}/deployments")
        self.api.wait_for_list(
            f"/apis/apps/v1/namespaces/{self.namespace}/replicasets", lambda found: not found
        )
        for name in self._nodes:
            with contextlib.suppress(ApiError):
                self.api.delete(f"/api/v1/nodes/{name}")
        self.api.delete(self._pods, gracePeriodSeconds="0")
        self.api.wait_for_list(self._pods, lambda found: not found)
        mine = set(self._nodes)
        self.api.wait_for_list(
            "/api/v1/nodes", lambda found: not any(n["metadata"]["name"] in mine for n in found)
        )


class History:
    """All states that pods had, in order."""

    def __init__(self, changes: Iterable[tuple[str, Json]]) -> None:
        self._changes = list(changes)

    def check_capacity(self, capacity: Mapping[str, int]) -> None:
        """Assert that at no time the pods on a node asked for more than it has."""
        taken: dict[str, Counter[str]] = {node: Counter() for node in capacity}
        for kind, each in self._changes:
            node, uid = each["spec"].get("nodeName"), each["metadata"]["uid"]
            if node in taken:
                taken[node][uid] = 0 if kind == "DELETED" else requested(each)
                assert taken[node].total() <= capacity[node], f"{node} is over-allocated"

    def check_victims(self) -> None:
        """Assert that each victim freed capacity for a more important pod, nominated before."""
        claims: dict[str, tuple[str, int]] = {}
        terminating: set[str] = set()
        for kind, each in self._changes:
            uid, node = each["metadata"]["uid"], each["spec"].get("nodeName", "")
            claims.pop(uid, None)
            if kind != "DELETED" and not node:
                claims[uid] = (each["status"].get("nominatedNodeName", ""), priority(each))
            if "deletionTimestamp" not in each["metadata"] or uid in terminating:
                continue
            terminating.add(uid)
            if condition(each, "DisruptionTarget"):
                name = each["metadata"]["name"]
                claimed = [rank for place, rank in claims.values() if place == node]
                assert claimed, f"{name} was deleted though no pod was nominated to {node}"
                assert max(claimed) > priority(each), f"{name} was not less important"

    def check_bindings(self) -> None:
        """Assert that no pod that had a node got another one."""
        nodes: dict[str, str] = {}
        for _, each in self._changes:
            node = each["spec"].get("nodeName", "")
            before = nodes.setdefault(each["metadata"]["uid"], node)
            assert before in {"", node}, f"{each['metadata']['name']} went from {before} to {node}"
            nodes[each["metadata"]["uid"]] = node

    def evicted(self) -> list[str]:
        """Return the pods that a scheduler evicted and that are deleted or terminating, sorted."""
        return sorted(
            {
                each["metadata"]["name"]
                for kind, each in self._changes
                if kind == "DELETED" or "deletionTimestamp" in each["metadata"]
                if condition(each, "DisruptionTarget").get("status") == "True"
            }
        )

    def doomed(self) -> list[str]:
        """Return the pods that were marked as victims at any time, sorted."""
        return sorted(
            {
                each["metadata"]["name"]
                for _, each in self._changes
                if condition(each, "DisruptionTarget").get("status") == "True"
            }
        )

    def bindings(self) -> Counter[str]:
        """Return how often each pod got a node after it was created."""
        counts: Counter[str] = Counter()
        nodes: dict[str, str] = {}
        for _, each in self._changes:
            uid, node = each["metadata"]["uid"], each["spec"].get("nodeName", "")
            if uid in nodes and nodes[uid] != node:
                counts[each["metadata"]["name"]] += 1
            nodes[uid] = node
        return counts

    def nominations(self, name: str) -> list[str]:
        """Return the nodes that a pod was nominated to, one after the other; "" for none."""
        nodes = [
            each["status"].get("nominatedNodeName", "")
            for _, each in self._changes
            if each["metadata"]["name"] == name and not is_bound(each)
        ]
        return [node for node, _ in itertools.groupby(nodes)]


def requested(pod: Json) -> int:
    """Return how many millicores a pod asks for."""
    amounts = [each["resources"]["requests"]["cpu"] for each in pod["spec"]["containers"]]
    return sum(map(millicores, amounts))


def millicores(text: str) -> int:
    """Return a quantity of CPU, which the API server writes as 1500m, or 2."""
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def priority(pod: Json) -> int:
    """Return the priority of a pod."""
    found: int = pod["spec"].get("priority", 0)
    return found
