"""Waits for nodes with a real kubelet."""

import time
from typing import Any, Final

from deploy.tools.controlplane.api import ApiClient, ApiError

__all__ = ["await_answer", "await_ready"]

PAUSE_SECONDS: Final = 0.2


def await_ready(api: ApiClient, node: str, seconds: float) -> None:
    """Wait until a node is ready for pods.

    Raises:
        TimeoutError: it is not ready in time.
    """
    api.wait_for(f"/api/v1/nodes/{node}", _is_ready, seconds)


def await_answer(api: ApiClient, node: str, seconds: float) -> None:
    """Wait until the kubelet of a node responds to the API server.

    Raises:
        ApiError: it does not respond in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            api.request("GET", f"/api/v1/nodes/{node}/proxy/healthz")
        except ApiError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _is_ready(node: dict[str, Any] | None) -> bool:
    if node is None or node["spec"].get("taints"):
        return False
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
