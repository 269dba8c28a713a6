"""A server that answers as an API server does for the plugin: leases, pods and port-forwards.

A port-forward of any pod reaches the port that `forward_to` names.
"""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from scheduler.observe.pages.statuses import status
from tests.support.certificates import Authority

__all__ = ["ApiServerStandIn", "lease"]

TOKEN = "token-of-jane"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
POLICIES = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(name: str, holder: str) -> dict[str, Any]:
    """Return a Lease."""
    labels = {"app.kubernetes.io/name": "preemptive-scheduler"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"holderIdentity": holder}}


@dataclass
class ApiServerStandIn:
    """What it has; a test may change it at any time."""

    forward_to: int = 0
    token: str = TOKEN
    #: By namespace and name.
    leases: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    priority_classes: list[dict[str, Any]] = field(default_factory=list)
    #: By name; `None` where their definition is missing.
    policies: dict[str, dict[str, Any]] | None = field(default_factory=dict)
    #: The status that is in a policy as soon as it is read, by the generation that it is about.
    confirm: Callable[[int], dict[str, Any]] = lambda _generation: {}
    #: The status of answers by resource: `leases`, `pods`, `portforward`.
    refused: dict[str, int] = field(default_factory=dict)
    #: Status, reason and message of the answer to each pod that is applied without storing it.
    dry_run: tuple[int, str, str] = (200, "", "")
    #: What the kubelet reports instead of forwarding.
    forward_error: str = ""
    requests: list[str] = field(default_factory=list)
    forwarded: list[str] = field(default_factory=list)
    server: str = ""

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._authenticated])
        app.router.add_get(LEASES, self._leases)
        app.router.add_get(LEASES + "/{name}", self._lease)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._pods)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}", self._pod)
        for version in ("/api/v1", "/apis/scheduling.k8s.io/v1"):
            app.router.add_get(version, self._resources)
        app.router.add_patch(PRIORITY_CLASSES + "/{name}", self._dry_run)
        app.router.add_patch("/api/v1/namespaces/{namespace}/{plural}/{name}", self._dry_run)
        app.router.add_get(PRIORITY_CLASSES, self._priority_classes)
        app.router.add_route("*", POLICIES, self._all_policies)
        app.router.add_route("*", POLICIES + "/{name}", self._policy)
        path = "/api/v1/namespaces/{namespace}/pods/{name}/portforward"
        app.router.add_get(path, self._port_forward)
        return app

    @contextlib.asynccontextmanager
    async def serving(self, authority: Authority) -> AsyncIterator[str]:
        """Serve over TLS on loopback; give the address."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.server = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self.server
        finally:
            await runner.cleanup()

    def kubeconfig(self, authority: Authority, **context: str) -> dict[str, Any]:
        """Return a kubeconfig for this server."""
        cluster = {
            "server": self.server,
            "certificate-authority": str(authority.certificate),
            "tls-server-name": "kubernetes",
        }
        return {
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "jane", "user": {"token": TOKEN}}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "jane", **context}}
            ],
        }

    def write_kubeconfig(self, path: Path, authority: Authority, **context: str) -> Path:
        """Write a kubeconfig for this server."""
        path.write_text(yaml.safe_dump(self.kubeconfig(authority, **context)))
        return path

    @web.middleware
    async def _authenticated(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return refusal(401, "Unauthorized", "Unauthorized")
        resource = next((each for each in self.refused if each in request.path), "")
        if resource and not (resource == "pods" and "portforward" in request.path):
            code = self.refused[resource]
            message = f'{resource} is forbidden: User "jane" cannot get resource "{resource}"'
            return refusal(code, "Forbidden", message)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _resources(self, request: web.Request) -> web.Response:
        kinds = {"pods": "Pod", "serviceaccounts": "ServiceAccount"}
        if request.path != "/api/v1":
            kinds = {"priorityclasses": "PriorityClass"}
        found = [
            {"name": name, "kind": kind, "namespaced": kind != "PriorityClass"}
            for name, kind in kinds.items()
        ]
        return web.json_response({"resources": found})

    async def _dry_run(self, request: web.Request) -> web.Response:
        assert request.query["dryRun"] == "All"
        is_pod = request.match_info.get("plural") == "pods"
        code, reason, message = self.dry_run if is_pod else (200, "", "")
        return web.json_response({}) if code == 200 else refusal(code, reason, message)

    async def _lease(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        if key not in self.leases:
            message = f'leases.coordination.k8s.io "{key[1]}" not found'
            return refusal(404, "NotFound", message)
        return web.json_response(self.leases[key])

    async def _leases(self, request: web.Request) -> web.Response:
        namespace = request.match_info["namespace"]
        return web.json_response(
            {"items": [each for (where, _), each in self.leases.items() if where == namespace]}
        )

    async def _pods(self, request: web.Request) -> web.Response:
        return web.json_response({"items": self.pods})

    async def _pod(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        for each in self.pods:
            if each["metadata"]["name"] == name:
                return web.json_response(each)
        return refusal(404, "NotFound", f'pods "{name}" not found')

    async def _priority_classes(self, _request: web.Request) -> web.Response:
        return web.json_response({"items": self.priority_classes})

    async def _all_policies(self, request: web.Request) -> web.Response:
        if self.policies is None:
            return refusal(404, "NotFound", "the server could not find the requested resource")
        if request.method == "GET":
            return web.json_response({"items": list(self.policies.values())})
        made = await request.json()
        name = made["metadata"]["name"]
        if name in self.policies:
            return refusal(409, "AlreadyExists", f"{name} already exists")
        made["metadata"] |= {"uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}
        self.policies[name] = made
        return web.json_response(made, status=201)

    async def _policy(self, request: web.Request) -> web.Response:
        name, policies = request.match_info["name"], self.policies
        if policies is None or name not in policies:
            return refusal(404, "NotFound", f"{name} not found")
        found = policies[name]
        change = await request.json() if request.method != "GET" else {}
        conditions = {**change.get("preconditions", {}), **change.get("metadata", {})}
        if any(found["metadata"][key] != wanted for key, wanted in conditions.items()):
            return refusal(409, "Conflict", f"{name} has changed")
        if request.method == "DELETE":
            del policies[name]
        elif request.method == "PATCH":
            spec = {**found["spec"], **change["spec"]}
            found["spec"] = {key: value for key, value in spec.items() if value is not None}
            found["metadata"]["generation"] += 1
        else:
            found["status"] = self.confirm(found["metadata"]["generation"])
        return web.json_response(found)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        if "websocket" not in request.headers.get("Upgrade", "").lower():
            return refusal(400, "BadRequest", "Upgrade request required")
        self.forwarded.append(request.path)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        port = struct.pack("<H", int(request.query["ports"]))
        await socket.send_bytes(b"\x00" + port)
        await socket.send_bytes(b"\x01" + port)
        if self.forward_error:
            await socket.send_bytes(b"\x01" + self.forward_error.encode())
            await socket.close()
            return socket
        reader, writer = await asyncio.open_connection("127.0.0.1", self.forward_to)
        copying = asyncio.create_task(_to_websocket(reader, socket))
        try:
            async for message in socket:
                assert message.data[0] == 0
                writer.write(message.data[1:])
                await writer.drain()
        finally:
            copying.cancel()
            writer.close()
        return socket


async def _to_websocket(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while data := await reader.read(1000):
        await socket.send_bytes(b"\x00" + data)
    await socket.close()


def refusal(code: int, reason: str, message: str) -> web.Response:
    """Return a Status."""
    body = status(code, reason, message)
    return web.Response(status=code, body=body, content_type="application/json")
