"""Pods that the scheduler under test places, and a steady stream of them."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

from deploy.tools.controlplane.api import ApiClient, ApiError
from tests.e2e.release import ready

Json = dict[str, Any]

#: The image that `deploy.tools.nodes.images` makes; it waits until it is asked to end.
IMAGE: Final = "localhost/workload:1"

#: A resource that the tests deal out, so that rooms have the same size on every machine.
SLOT: Final = "e2e.example/slot"
PATIENCE_SECONDS: Final = 90.0

#: Says good-bye for two seconds when it is asked to leave.
POLITE: Final = (
    "trap 'sleep 2; echo -n good-bye > /dev/termination-log; exit 0' TERM;"
    " while :; do sleep 1 & wait; done"
)


def pod(
    name: str,
    scheduler: str,
    *,
    slots: int = 0,
    priority: str = "",
    script: str = "",
    **spec: Any,
) -> Json:
    """Return a pod that meets the restricted Pod Security Standard."""
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": pod_spec(scheduler, slots=slots, priority=priority, script=script, **spec),
    }


def pod_spec(
    scheduler: str, *, slots: int = 0, priority: str = "", script: str = "", **spec: Any
) -> Json:
    """Return the spec of such a pod."""
    container: Json = {
        "name": "main",
        "image": IMAGE,
        "resources": {
            "requests": {"cpu": "5m", "memory": "8Mi"},
            "limits": {},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if slots:
        for kind in ("requests", "limits"):
            container["resources"][kind][SLOT] = str(slots)
    if script:
        container["command"] = ["/bin/busybox", "sh", "-c", script]
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 10,
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        **({"priorityClassName": priority} if priority else {}),
        **spec,
    }


def deal(api: ApiClient, slots: Mapping[str, int]) -> None:
    """Give nodes so many slots, and wait until they have them."""
    for node, count in slots.items():
        amount = {SLOT: str(count)}
        body = {"status": {"capacity": amount, "allocatable": amount}}
        api.patch(f"/api/v1/nodes/{node}/status", body)
        api.wait_for(
            f"/api/v1/nodes/{node}",
            lambda found: found is not None and _slots(found) == count,  # noqa: B023 - used at once
            PATIENCE_SECONDS,
        )


def _slots(node: Json) -> int:
    return int(node["status"]["allocatable"].get(SLOT, 0))


def await_pod(
    api: ApiClient,
    namespace: str,
    name: str,
    accepted: Callable[[Json], bool] = ready,
    timeout: float = PATIENCE_SECONDS,
) -> Json:
    """Wait until a pod is ready, or as wanted, and return it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    found = api.wait_for(path, lambda pod: pod is not None and accepted(pod), timeout)
    assert found is not None
    return found


def await_pods(
    api: ApiClient,
    namespace: str,
    count: int,
    accepted: Callable[[Json], bool] = ready,
    timeout: float = PATIENCE_SECONDS,
) -> list[Json]:
    """Wait until so many pods of a namespace are ready, or as wanted, and return those."""

    def enough(pods: list[Json]) -> bool:
        return sum(map(accepted, pods)) >= count

    found = api.wait_for_list(f"/api/v1/namespaces/{namespace}/pods", enough, timeout)
    return [each for each in found if accepted(each)]


def bound(pod: Json) -> bool:
    """Tell whether a pod has been placed."""
    return bool(pod["spec"].get("nodeName"))


class Stream:
    """Creates a pod every so often, and measures how long each waits for its node.

    with Stream(api, namespace, template) as stream:
        ...
        assert stream.longest_so_far() < 5
    """

    #: Between two pods.
    PAUSE_SECONDS: Final = 0.2

    def __init__(self, api: ApiClient, namespace: str, spec: Json) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._spec = spec
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._create, self._watch)
        ]

    def __enter__(self) -> "Stream":
        for thread in self._threads:
            thread.start()
        try:
            self.await_next()
        except BaseException:
            self._stop.set()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads[0].join(PATIENCE_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: self._missing() == [], PATIENCE_SECONDS)
        assert self._missing() == [], "pods that were never placed"

    @property
    def count(self) -> int:
        """How many pods were created."""
        return len(self._created)

    def longest_so_far(self) -> float:
        """Return the longest time in seconds that a pod that has been placed waited for it."""
        return max(placed - self._created[name] for name, placed in list(self._bound.items()))

    def await_next(self) -> None:
        """Wait until a pod has been placed that is created from now on."""
        before = len(self._created)
        with self._changed:
            done = self._changed.wait_for(
                lambda: any(name in self._bound for name in list(self._created)[before + 1 :]),
                PATIENCE_SECONDS,
            )
        assert done, "no pod is placed"

    def _missing(self) -> list[str]:
        return [name for name in list(self._created) if name not in self._bound]

    def _create(self) -> None:
        for number in itertools.count():
            if self._stop.wait(self.PAUSE_SECONDS):
                return
            name = f"stream-{number}"
            body = {"metadata": {"name": name}, "spec": self._spec}
            self._created[name] = time.monotonic()
            while not self._try(lambda body=body: self._api.post(self._path, body)):
                self._stop.wait(self.PAUSE_SECONDS)

    def _try(self, call: Callable[[], object]) -> bool:
        """Tell whether a call came through; an API server may be starting again."""
        try:
            call()
        except ApiError as error:
            if error.status == 409:  # the answer to the first try was lost
                return True
            if error.status < 500 and error.status != 429:
                raise
            return False
        except OSError:
            return False
        return True

    def _watch(self) -> None:
        while not (self._stop.is_set() and not self._missing()):
            self._try(self._see)

    def _see(self) -> None:
        """Note what a watch tells: first what there is, then what changes."""
        with closing(self._api.watch(self._path, timeout=5)) as events:
            for kind, seen in events:
                name = seen["metadata"].get("name", "")
                if kind != "BOOKMARK" and bound(seen) and name not in self._bound:
                    with self._changed:
                        self._bound[name] = time.monotonic()
                        self._changed.notify_all()
                if self._stop.is_set() and not self._missing():
                    return
