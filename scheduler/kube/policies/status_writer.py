"""Writes the statuses of policies, and an Event where one is refused.

It runs in the thread of `kube/policies/kopf_watcher`, with the session of kopf. Before each request
it checks whether this process still leads: a status may have waited behind others.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.client.requests import CUT_NOTE_BYTES, event_name, micro_stamp
from scheduler.kube.errors import KubeError, NotFound, Unreachable, refusal
from scheduler.kube.policies.registry import (
    ACCEPTED,
    GROUP,
    PATH,
    RESOURCE,
    VERSION,
    Due,
    Json,
    version,
)
from scheduler.model.times import Seconds

__all__ = ["Outcomes", "PolicyWriter", "error_text"]

ANSWER_SECONDS: Final = 10.0
JSON_PATCH: Final = "application/json-patch+json"
#: Events about objects without a namespace are in this one.
#: Source: kube-apiserver v1.36.3 pkg/apis/core/validation/events.go, legacyValidateEvent.
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
CONTROLLER: Final = "preemptive-scheduler"


class Outcomes(Protocol):
    """Gets the results of writes."""

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Record that a status was written."""

    def not_written(self, name: str, problem: str) -> None:
        """Record that a status, or the Event about it, could not be written."""


class PolicyWriter:
    """Writes statuses and Events.

    Args:
        where: The server.
        session: Sends the requests, with credentials.
        may_write: Returns whether this process leads now.
        wall: Seconds since the epoch.
        outcomes: Gets the results.
    """

    def __init__(
        self,
        where: ClusterAccess,
        session: aiohttp.ClientSession,
        may_write: Callable[[], Awaitable[bool]],
        wall: Callable[[], Seconds],
        outcomes: Outcomes,
    ) -> None:
        self._server = where.server
        self._session = session
        self._may_write = may_write
        self._wall = wall
        self._outcomes = outcomes

    async def write(self, name: str, due: Due) -> None:
        """Write the status of a policy, and an Event when it is newly refused.

        Nothing is written when this process does not lead, or when the policy is gone. A failure
        is reported, and the status is due again.
        """
        if not await self._may_write():
            return
        try:
            at = await self._patch(name, due)
        except NotFound:
            return
        except _FAILURES as error:
            self._outcomes.not_written(name, error_text(error))
            return
        self._outcomes.wrote(name, due.uid, due.status, at)
        refused = _refused(due.status)
        if due.is_news and refused and await self._may_write():
            try:
                await self._announce(name, due.uid, refused)
            except _FAILURES as error:
                self._outcomes.not_written(name, f"event: {error_text(error)}")

    async def _patch(self, name: str, due: Due) -> int:
        """Replace the status of a policy; return the resulting version.

        Raises:
            KubeError: The server refused, as it does for another policy of the same name.
        """
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": due.uid},
            {"op": "add", "path": "/status", "value": due.status},
        ]
        resource = f"{RESOURCE}/status"
        path = f"{PATH}/{name}/status"
        body = await self._send("patch", resource, path, patch, JSON_PATCH)
        try:
            return version(msgspec.json.decode(body, type=dict[str, Any])["metadata"])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, AttributeError) as error:
            raise Unreachable(f"cannot patch {resource}: {error}") from error

    async def _announce(self, name: str, uid: str, note: str) -> None:
        """Write an Event about a policy that is refused."""
        now = self._wall()
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "default", "name": event_name(name, round(now * 1e9))},
            "eventTime": micro_stamp(now),
            "reportingController": CONTROLLER,
            "reportingInstance": f"{CONTROLLER}-{os.uname().nodename}"[:128],
            "action": "Judging",
            "reason": "PolicyRefused",
            "regarding": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "PreemptionPolicy",
                "name": name,
                "uid": uid,
            },
            "note": note.encode()[:CUT_NOTE_BYTES].decode(errors="ignore"),
            "type": "Warning",
        }
        await self._send("create", "events", EVENTS, event, "application/json")

    async def _send(
        self, verb: str, resource: str, path: str, body: object, content_type: str
    ) -> bytes:
        async with self._session.request(
            "PATCH" if verb == "patch" else "POST",
            f"{self._server}{path}",
            data=msgspec.json.encode(body),
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
        ) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise refusal(answer.status, {}, content, verb, resource)
        return content


#: Errors of a write, also of a status that cannot be encoded as JSON.
_FAILURES: Final = (
    KubeError,
    OSError,
    aiohttp.ClientError,
    TimeoutError,
    TypeError,
    ValueError,
    OverflowError,
    msgspec.MsgspecError,
)


def _refused(status: Json) -> str:
    """Return the reason in a status why a policy is refused; empty where it is accepted."""
    for condition in status["conditions"]:
        if (condition.get("type"), condition.get("status")) == (ACCEPTED, "False"):
            return str(condition.get("message"))
    return ""


def error_text(error: BaseException) -> str:
    """Return the message of an error: its `message` if it has one, as errors of kopf do."""
    message = getattr(error, "message", None)
    return str(message) if message else str(error) or type(error).__name__
