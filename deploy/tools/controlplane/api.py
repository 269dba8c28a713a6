"""A small synchronous client of the Kubernetes API for tests and tools: JSON in, JSON out.

Paths are API paths, `/api/v1/namespaces/default/pods/a`. One client may serve many threads. Waiting
is done by a real watch (`wait_for`, `wait_for_list`), never by polling.
"""

import base64
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from deploy.tools.controlplane.manifests import CRD, ResourcePaths, documents
from deploy.tools.controlplane.transport import Endpoint, Transport

#: A JSON object as the API server sends it.
Json: TypeAlias = dict[str, Any]

#: How `patch` names its kinds of patch.
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}

#: Status codes after which a wait starts again with a list: expired, overloaded, starting or
#: stopping.
PASSING = frozenset({410, 429, 500, 503})

#: Pause before asking again a server that refused the connection.
RECONNECT_SECONDS = 0.05


class ApiError(Exception):
    """The server has responded with an error.

    Attributes:
        status: the HTTP status code.
        reason: the reason of the Status object, e.g. "AlreadyExists"; empty if there was none.
        message: the server's message.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class ApiClient:
    """Talks to one API server as one user."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._transport = Transport(endpoint)
        self._paths = ResourcePaths(self._resources)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> "ApiClient":
        """Make a client for the current context of a kubeconfig that `kubeconfig.render` wrote."""
        return cls(endpoint(path))

    def close(self) -> None:
        """Close idle connections; the client may be used again."""
        self._transport.close()

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> bytes:
        """Send a request and return the answer's body.

        Raises:
            ApiError: the server refused.
            OSError, http.client.HTTPException: there was no response.
        """
        data = None if body is None else json.dumps(body).encode()
        status, content = self._transport.request(method, path, data, content_type, timeout)
        if status >= 400:
            raise _error(status, content)
        return content

    def get(self, path: str, **query: str) -> Json:
        """Read an object or a list."""
        return _object(self.request("GET", _with_query(path, query)))

    def items(self, path: str, **query: str) -> list[Json]:
        """Read the items of a list."""
        found: list[Json] = self.get(path, **query)["items"] or []
        return found

    def post(self, path: str, body: Json) -> Json:
        """Create an object in a collection, or use a subresource such as `.../binding`."""
        return _object(self.request("POST", path, body))

    def post_all(self, path: str, bodies: Iterable[Json], threads: int = 8) -> list[Json]:
        """Create many objects at once; the answers come in the order of the bodies."""
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda body: self.post(path, body), bodies))

    def put(self, path: str, body: Json) -> Json:
        """Replace an object."""
        return _object(self.request("PUT", path, body))

    def patch(self, path: str, body: object, kind: str = "merge", **query: str) -> Json:
        """Patch an object; `kind` is a key of PATCH_TYPES."""
        content_type = PATCH_TYPES[kind]
        return _object(self.request("PATCH", _with_query(path, query), body, content_type))

    def delete(self, path: str, body: Json | None = None, **query: str) -> Json:
        """Delete an object or a collection; `body` may be DeleteOptions, so may the query."""
        return _object(self.request("DELETE", _with_query(path, query), body))

    def apply(self, source: Path | Json | Iterable[Json], manager: str = "local") -> list[Json]:
        """Apply objects by server-side apply, taking over fields of others.

        Args:
            source: a YAML file, a folder of them, an object, or objects.
            manager: the field manager.

        Returns:
            The objects as they are on the server, in the order given.
        """
        applied = []
        for document in documents(source):
            path = self._paths.of(document)
            query = {"fieldManager": manager, "force": "true"}
            applied.append(self.patch(path, document, "apply", **query))
            if document["kind"] == CRD:
                self._await_served(path, document["spec"])
        return applied

    def watch(
        self, path: str, resource_version: str | None = None, timeout: float = 30.0
    ) -> Generator[tuple[str, Json], None, None]:
        """Watch a collection and yield (type, object): ADDED, MODIFIED, DELETED or BOOKMARK.

        Without a resource version it begins with an ADDED for each object that exists. Ends when
        the server ends it.

        Raises:
            TimeoutError: `timeout` seconds are over.
            ApiError: refused, or broken off by the server (410: the version is too old).
        """
        query = {"watch": "true", "allowWatchBookmarks": "true"}
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        with closing(self._transport.lines(_with_query(path, query), timeout)) as lines:
            status = int(next(lines))
            if status >= 400:
                raise _error(status, b"\n".join(lines))
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _error(event["object"].get("code", 500), json.dumps(event["object"]))
                yield event["type"], event["object"]

    def wait_for(
        self,
        path: str,
        predicate: Callable[[Json | None], bool] = lambda found: found is not None,
        timeout: float = 30.0,
    ) -> Json | None:
        """Wait until the object at `path` satisfies the predicate (which gets None if absent).

        The predicate sees the first state read and then every change that the server reports.

        Returns:
            The object that satisfied it.

        Raises:
            TimeoutError: it did not in time; the message holds the last state.
        """
        collection, name = path.rsplit("/", 1)

        def satisfied(found: list[Json]) -> bool:
            return predicate(found[0] if found else None)

        selector = {"fieldSelector": f"metadata.name={urllib.parse.unquote(name)}"}
        found = self.wait_for_list(_with_query(collection, selector), satisfied, timeout)
        return found[0] if found else None

    def wait_for_list(
        self, path: str, predicate: Callable[[list[Json]], bool], timeout: float = 30.0
    ) -> list[Json]:
        """Wait until the objects of a collection satisfy the predicate; selectors go into the path.

        Outages of the server and expired versions are ridden out by listing again.

        Returns:
            The objects that satisfied it, in the order in which they were first seen.

        Raises:
            TimeoutError: they did not in time; the message holds their last state.
        """
        deadline = time.monotonic() + timeout
        found: list[Json] = []
        while (remaining := deadline - time.monotonic()) > 0:
            try:
                with closing(self._states(path, remaining)) as states:
                    for found in states:
                        if predicate(found):
                            return found
            except TimeoutError:
                break
            except ApiError as error:
                if error.status not in PASSING:
                    raise
                time.sleep(RECONNECT_SECONDS)
            except (OSError, http.client.HTTPException):
                time.sleep(RECONNECT_SECONDS)
        last = json.dumps(found)[:2000]
        raise TimeoutError(f"waited {timeout:g} s for {path}; last seen: {last}")

    def _resources(self, root: str) -> list[Json]:
        try:
            found: list[Json] = self.get(root)["resources"]
        except ApiError as error:
            if error.status == 404:
                return []
            raise
        return found

    def _has_kind(self, root: str, kind: str) -> bool:
        return any(resource["kind"] == kind for resource in self._resources(root))

    def _await_served(self, path: str, spec: Json) -> None:
        """Wait until the kind of a CustomResourceDefinition can be used."""
        self.wait_for(path, _is_established)
        deadline = time.monotonic() + 10.0
        for version in spec["versions"]:
            root = f"/apis/{spec['group']}/{version['name']}"
            # Discovery follows the condition by a moment, and cannot be watched.
            while version["served"] and not self._has_kind(root, spec["names"]["kind"]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{root} is established but not served")
                time.sleep(RECONNECT_SECONDS)

    def _states(self, path: str, timeout: float) -> Generator[list[Json], None, None]:
        listing = _object(self.request("GET", path, timeout=timeout))
        found = {_key(item): item for item in listing["items"] or []}
        yield list(found.values())
        version = listing["metadata"]["resourceVersion"]
        with closing(self.watch(path, version, timeout)) as events:
            for kind, item in events:
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    found.pop(_key(item), None)
                else:
                    found[_key(item)] = item
                yield list(found.values())


def endpoint(path: Path) -> Endpoint:
    """Return where the current context of a kubeconfig that `kubeconfig.render` wrote leads."""
    config = yaml.safe_load(path.read_text())
    context = _named(config, "context", config["current-context"])
    cluster = _named(config, "cluster", context["cluster"])
    user = _named(config, "user", context["user"])
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    if "client-key-data" in user:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]))
            pem.write(base64.b64decode(user["client-key-data"]))
            pem.flush()
            tls.load_cert_chain(pem.name)
    server = urllib.parse.urlsplit(cluster["server"])
    host = server.hostname or "127.0.0.1"
    return Endpoint(host, server.port or 443, tls, user.get("token"))


def _key(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _is_established(crd: Json | None) -> bool:
    conditions = (crd or {}).get("status", {}).get("conditions") or ()  # null at first
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _with_query(path: str, query: dict[str, str]) -> str:
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urllib.parse.urlencode(query)}"


def _object(content: bytes) -> Json:
    decoded: Json = json.loads(content)
    return decoded


def _named(config: Json, kind: str, name: str) -> Json:
    found: Json = next(entry[kind] for entry in config[f"{kind}s"] if entry["name"] == name)
    return found


def _error(status: int, content: bytes | str) -> ApiError:
    try:
        answer = json.loads(content)
        return ApiError(status, answer.get("reason", ""), answer["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        return ApiError(status, "", text.strip()[:500])
