"""PreemptionPolicies in a fake API server: written by a user, and what is said in their status."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.fake_api import FakeApi

__all__ = ["BAD", "KIND", "ONE", "TWO", "asked", "put", "said", "status", "until"]

KIND = "preemptionpolicies"
ONE, TWO = {"maxVictimsPerPreemption": 1}, {"maxVictimsPerPreemption": 2}
BAD = {"maxVictimsPerPreemption": -1}


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; kopf takes a moment to be imported."""
    async with asyncio.timeout(15):
        while not holds():
            await asyncio.sleep(0.005)


def put(api: FakeApi, spec: dict[str, Any], generation: int, name: str = "p") -> None:
    status = api.store.get(KIND, name).get("status", {}) if api.store.has(KIND, name) else {}
    metadata = {"name": name, "generation": generation}
    api.store.put(KIND, {"metadata": metadata, "spec": spec, "status": status})


def status(api: FakeApi, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = api.store.get(KIND, name).get("status", {})
    return found


def said(api: FakeApi, name: str = "p") -> tuple[str, int]:
    """Return the value of the condition, and the generation that it is about."""
    for each in status(api, name).get("conditions", []):
        return each["status"], each["observedGeneration"]
    return "", 0


def asked(api: FakeApi, verb: str) -> list[str]:
    return [each.resource for each in api.requests if each.verb == verb]
