"""Pods get their volumes: the controller of volumes and the scheduler work hand in hand."""

import contextlib
import itertools
from collections.abc import Iterator

import pytest

from deploy.tools.controlplane.api import ApiError
from tests.integration.objects import Json, condition, is_bound, is_nominated, pod
from tests.integration.scene import Scene

pytestmark = pytest.mark.cluster

_numbers = itertools.count(1)
HOSTNAME = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"


class Storage:
    """Creates storage for one scene, and removes what is left outside of its namespace."""

    def __init__(self, scene: Scene) -> None:
        self._api = scene.api
        self._claims = f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims"
        self._namespace = scene.namespace
        self._made: list[str] = []
        self.stem = f"live-{next(_numbers)}"

    def storage_class(self, provisioner: str = "kubernetes.io/no-provisioner") -> str:
        """Create a class whose claims wait for their first consumer; return its name."""
        self._create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": self.stem},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        return self.stem

    def volume(self, name: str, class_name: str, node: str, **spec: object) -> str:
        """Create a local volume of a node; return its name."""
        expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
        terms = [{"matchExpressions": [expression]}]
        self._create(
            "/api/v1/persistentvolumes",
            {
                "metadata": {"name": f"{self.stem}-{name}"},
                "spec": {
                    "capacity": {"storage": "5Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": class_name,
                    "local": {"path": "/mnt"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                    **spec,
                },
            },
        )
        return f"{self.stem}-{name}"

    def claim(self, name: str, class_name: str) -> Json:
        """Create a claim."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        return self._api.post(self._claims, {"metadata": {"name": name}, "spec": spec})

    def wait_claim(self, name: str, phase: str = "Bound") -> Json:
        """Wait until a claim is in a phase."""

        def holds(found: Json | None) -> bool:
            return found is not None and found["status"].get("phase") == phase

        return self._api.wait_for(f"{self._claims}/{name}", holds) or {}

    def get_claim(self, name: str) -> Json:
        """Read a claim."""
        return self._api.get(f"{self._claims}/{name}")

    def clear(self) -> None:
        """Remove classes and volumes."""
        for path in self._made:
            with contextlib.suppress(ApiError):
                self._api.delete(path)

    def _create(self, path: str, item: Json) -> None:
        self._api.post(path, item)
        self._made.append(f"{path}/{item['metadata']['name']}")


@pytest.fixture
def storage(scene: Scene) -> Iterator[Storage]:
    made = Storage(scene)
    yield made
    made.clear()


def using(name: str, claim: str) -> Json:
    """Return a pod with a claim."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, volumes=volumes)


def test_a_claim_that_waits_for_its_consumer_gets_the_volume_of_the_chosen_node(
    scene, schedulers, storage
):
    _, second = scene.nodes(2)
    local = storage.storage_class()
    volume = storage.volume("v", local, second)
    scheduler = schedulers.start()
    storage.claim("data", local)

    scene.create(using("a", "data"))

    assert scene.wait_running("a") == {"a": second}
    assert storage.wait_claim("data")["spec"]["volumeName"] == volume
    # While it waited for its volume, the pod was nominated to its node.
    assert scene.history().nominations("a") == ["", second]
    assert scheduler.logged("effect_failed") == []


def test_the_volume_of_one_pod_is_not_assigned_to_the_next(scene, scheduler, storage):
    node = scene.node()
    local = storage.storage_class()
    storage.volume("v", local, node)
    storage.claim("one", local)
    storage.claim("two", local)

    scene.create(using("a", "one"), using("b", "two"))
    (waiting,) = scene.wait_bound_count(1)
    scene.wait_rejected(waiting, "didn't find available persistent volumes to bind")
    storage.volume("w", local, node)

    assert scene.wait_running("a", "b") == {"a": node, "b": node}


def test_a_pod_waits_until_its_claim_exists_and_is_bound(scene, scheduler, storage):
    node = scene.node()
    scene.create(using("a", "late"))
    scene.wait_rejected("a", 'persistentvolumeclaim "late" not found')

    local = storage.storage_class()
    storage.volume("v", local, node)
    storage.claim("late", local)

    assert scene.wait_running("a") == {"a": node}


def test_a_pod_whose_volume_is_not_provisioned_in_time_frees_its_capacity_and_is_tried_again(
    scene, schedulers, storage
):
    node = scene.node()
    made = storage.storage_class(provisioner="example.com/slow")
    arguments = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 2}}
    profile = {"schedulerName": schedulers.name, "pluginConfig": [arguments]}
    scheduler = schedulers.start(config={"profiles": [profile]})
    claim = storage.claim("data", made)

    scene.create(using("a", "data"))

    late = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'

    def is_late(found: Json | None) -> bool:
        said = condition(found or {}, "PodScheduled")
        return said.get("reason") == "SchedulerError" and said.get("message") == late

    scene.wait("a", is_late)
    scene.wait("a", is_nominated(""))
    assert not is_bound(scene.pod("a"))
    assert storage.get_claim("data")["metadata"]["annotations"][SELECTED] == node

    reference = {"namespace": scene.namespace, "name": "data", "uid": claim["metadata"]["uid"]}
    storage.volume("v", made, node, claimRef=reference)

    assert scene.wait_running("a") == {"a": node}
    assert scheduler.logged("effect_failed") == []
