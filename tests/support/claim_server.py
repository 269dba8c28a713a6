"""A fake API server of resource claims: versions, strategic merge patches, and faults."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Unreachable

__all__ = ["CLAIMS", "EXISTS", "LOST", "STATUS_OF_POD", "ClaimServer"]

STATUS_OF_POD = "/api/v1/namespaces/default/pods/p/status"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#: Faults: the answer is lost; another object has the name.
LOST, EXISTS = object(), object()


@dataclass
class ClaimServer:
    """Keeps claims by path; a write must name the version that it was based on."""

    claims: dict[str, dict[str, Any]]
    #: What happens to the next writes of a path: a status, a lost answer, another answer as bytes,
    #: or a change before it.
    faults: dict[str, list[Any]] = field(default_factory=dict)
    #: How many requests can be sent without a task of the writer.
    dispatched: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[tuple[str, Any]] = field(default_factory=list)

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        await asyncio.sleep(0)
        self.requests.append((method, path))
        fault = self.faults[path].pop(0) if method != "GET" and self.faults.get(path) else None
        if isinstance(fault, int):
            return refusal(fault)
        if fault is EXISTS:
            return refusal(409, "AlreadyExists")
        if path == STATUS_OF_POD:
            self.bodies.append((path, json.loads(body or b"{}")))
            return Reply(200, {}, b"{}")
        plain = path.removesuffix("/status")
        if isinstance(fault, dict):
            self.claims[plain] = fault
        reply = self._write(method, plain, path, json.loads(body or b"{}"))
        if fault is LOST:
            raise Unreachable("connection reset")
        return Reply(200, {}, fault) if isinstance(fault, bytes) else reply

    def _write(self, method: str, plain: str, path: str, body: dict[str, Any]) -> Reply:
        if method == "POST":
            made = {**body, "metadata": {**body["metadata"], "uid": "uid-new"}}
            made["metadata"]["resourceVersion"] = "1"
            self.bodies.append((path, body))
            self.claims[f"{plain}/{made['metadata']['name']}"] = made
            return Reply(201, {}, json.dumps(made).encode())
        found = self.claims.get(plain)
        if found is None:
            return refusal(404)
        if method == "DELETE":
            del self.claims[plain]
        elif method == "PATCH":
            self.bodies.append((path, body))
            metadata = body["metadata"]
            version = metadata.get("resourceVersion")
            if version not in (None, found["metadata"]["resourceVersion"]):
                return refusal(409)
            if metadata.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                return refusal(422, message="metadata.uid: Invalid value: field is immutable")
            found = merged(found, body, path.endswith("/status"))
            version = str(int(found["metadata"]["resourceVersion"]) + 1)
            found = {**found, "metadata": {**found["metadata"], "resourceVersion": version}}
            self.claims[plain] = found
        return Reply(200, {}, json.dumps(found).encode())

    def dispatch(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        _seconds: float,
        then: Callable[[Reply | Unreachable], None],
    ) -> bool:
        if self.dispatched <= 0:
            return False
        self.dispatched -= 1

        def answered(task: asyncio.Task[Reply]) -> None:
            error = task.exception()
            then(error if isinstance(error, Unreachable) else task.result())

        task = asyncio.create_task(self.send(method, path, body, content_type))
        task.add_done_callback(answered)
        return True

    def stream(self, path: str, silence_seconds: float) -> Any:
        raise NotImplementedError

    def written(self) -> list[tuple[str, str]]:
        """Return the requests that change claims."""
        return [each for each in self.requests if each[0] != "GET" and CLAIMS in each[1]]


def merged(found: dict[str, Any], body: dict[str, Any], of_status: bool) -> dict[str, Any]:
    """Return a claim after a strategic merge patch, as far as these tests need it."""
    metadata, status = dict(found["metadata"]), dict(found.get("status") or {})
    if not of_status:
        wanted = body["metadata"]
        gone = wanted.get("$deleteFromPrimitiveList/finalizers", [])
        kept = [each for each in metadata.get("finalizers", []) if each not in gone]
        added = [each for each in wanted.get("finalizers", []) if each not in kept]
        return {**found, "metadata": {**metadata, "finalizers": kept + added}}
    for name, value in body["status"].items():
        if value is None:
            status.pop(name, None)
        elif name == "reservedFor":
            named = {each["uid"] for each in value}
            kept = [each for each in status.get(name, []) if each["uid"] not in named]
            status[name] = kept + [each for each in value if "$patch" not in each]
        else:
            status[name] = {**status.get(name, {}), **value}
    return {**found, "status": status}


def refusal(status: int, reason: str = "", message: str = "") -> Reply:
    body = {"kind": "Status", "message": message or f"no: {status}", "reason": reason}
    return Reply(status, {}, json.dumps(body).encode())
