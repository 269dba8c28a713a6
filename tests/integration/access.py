"""Rights of those who read the pages of a scheduler."""

import threading
from typing import Any

__all__ = ["EVERYWHERE", "RBAC", "subject", "until_status"]

#: Bound like this, a scheduler admits no client without a token, not even this host.
EVERYWHERE = ("--bind-address", "0.0.0.0")
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def subject(account: str, namespace: str, user: str = "") -> dict[str, str]:
    """Return a user as RBAC names it, or a ServiceAccount without one."""
    if user:
        return {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    return {"kind": "ServiceAccount", "name": account, "namespace": namespace}


def until_status(
    scheduler: Any, path: str, token: str, status: int, certificate: str = ""
) -> tuple[int, str]:
    """Ask until the answer is this one: the API server applies new rights a little later."""
    pause = threading.Event()
    for _ in range(100):
        found = scheduler.get(path, token, certificate)
        if found[0] == status:
            return found
        pause.wait(0.1)
    raise TimeoutError(f"{path}: {found}")
