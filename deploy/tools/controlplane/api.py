"""A small synchronous client of the Kubernetes API for tests and tools: JSON in, JSON out.

Paths are API paths, such as `/api/v1/namespaces/default/pods/a`. A client may be used by several
threads. `wait_for` and `wait_for_list` use a watch and do not poll.
"""

import json
import math
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import urllib3

from deploy.tools.controlplane.manifests import CRD, ResourcePaths, documents
from scheduler.kube.auth import cluster_access
from scheduler.kube.auth.cluster_access import ClusterAccess

#: A JSON object as the API server sends it.
Json: TypeAlias = dict[str, Any]

#: The content types of patches, by the names that `patch` takes.
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}

#: Status codes after which a wait starts again with a list: expired, overloaded, starting or
#: stopping.
PASSING = frozenset({410, 429, 500, 503})

#: Pause before the next attempt to reach a server that refused the connection.
RECONNECT_SECONDS = 0.05

#: Idle connections that are kept; each thread uses one at a time.
CONNECTIONS = 64


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
    """Sends requests to one API server as one user.

    A failed request is not repeated.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._server = access.server
        self._headers = {
            "Accept": "application/json",
            "User-Agent": "preemptive-scheduler-tools",
            **(access.credentials.cached_headers() or {}),
        }
        self._pools = urllib3.PoolManager(
            maxsize=CONNECTIONS, retries=False, ssl_context=access.tls
        )
        self._paths = ResourcePaths(self._resources)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> "ApiClient":
        """Make a client for the current context of a kubeconfig with a token or certificate."""
        return cls(cluster_access.load(path, {}))

    def close(self) -> None:
        """Close idle connections; the client may be used again."""
        self._pools.clear()

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
        """Send a request and return the body of the response.

        Raises:
            ApiError: the server responded with an error.
            OSError: there was no complete response; after `timeout` seconds a TimeoutError.
        """
        headers = self._headers
        data = None
        if body is not None:
            headers = {**headers, "Content-Type": content_type}
            data = json.dumps(body).encode()
        with _os_errors():
            response = self._pools.request(
                method, self._server + path, body=data, headers=headers, timeout=timeout
            )
        if response.status >= 400:
            raise _error(response.status, response.data)
        return response.data

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
        """Create objects in parallel; return them in the order of the bodies."""
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
        """Delete an object or a collection, with DeleteOptions as the body or as a query."""
        return _object(self.request("DELETE", _with_query(path, query), body))

    def apply(self, source: Path | Json | Iterable[Json], manager: str = "local") -> list[Json]:
        """Apply objects by server-side apply, and take over fields of other managers.

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

        Without a resource version it begins with ADDED for each object that exists. It ends when
        the server ends it.

        Raises:
            TimeoutError: `timeout` seconds are over.
            ApiError: the server responded with an error or sent one (410: the version is too old).
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(math.ceil(timeout)),
        }
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        with closing(self._lines(_with_query(path, query), timeout)) as lines:
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
            TimeoutError: no state satisfied it in time; the message has the last one.
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

        After an outage of the server or an expired version it lists again.

        Returns:
            The objects that satisfied it, in the order in which they were first seen.

        Raises:
            TimeoutError: no state satisfied it in time; the message has the last one.
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
            except OSError:
                time.sleep(RECONNECT_SECONDS)
        last = json.dumps([_without_managers(item) for item in found])[:2000]
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
            # Discovery is updated a moment after the condition, and cannot be watched.
            while version["served"] and not self._has_kind(root, spec["names"]["kind"]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{root} is established but not served")
                time.sleep(RECONNECT_SECONDS)

    def _lines(self, path: str, timeout: float) -> Generator[bytes, None, None]:
        """Yield the lines of a stream as they arrive.

        Raises:
            TimeoutError: `timeout` seconds are over.
            ApiError: the server responded with an error.
        """
        deadline = time.monotonic() + timeout
        with _os_errors():
            response = self._pools.request(
                "GET",
                self._server + path,
                headers=self._headers,
                timeout=timeout,
                preload_content=False,
            )
            with closing(response):
                if response.status >= 400:
                    raise _error(response.status, response.data)
                buffer = b""
                for chunk in response.stream():
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    yield from lines
                    if time.monotonic() >= deadline:
                        break
        if time.monotonic() >= deadline:
            raise TimeoutError("the time for this watch is over")

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


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise errors of the HTTP library as those of the standard library."""
    try:
        yield
    except urllib3.exceptions.NewConnectionError as error:  # which urllib3 counts as a timeout
        raise ConnectionError(str(error)) from error
    except urllib3.exceptions.TimeoutError as error:
        raise TimeoutError(str(error)) from error
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionError(str(error)) from error


def _key(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _without_managers(item: Json) -> Json:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


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


def _error(status: int, content: bytes | str) -> ApiError:
    try:
        answer = json.loads(content)
        return ApiError(status, answer.get("reason", ""), answer["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        return ApiError(status, "", text.strip()[:500])
