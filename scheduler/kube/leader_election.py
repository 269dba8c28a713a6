"""Leader election: of several instances only the holder of the lease writes.

Compatible with client-go's elector on the same Lease object. Time stamps in the lease are for
humans: an instance only compares when *it* saw the lease change, on its own monotonic clock, so
clocks that differ have no effect. Trust is one-sided: the holder trusts its lease until the renew
deadline after it *sent* the last successful renewal, and others wait for the longer lease duration
after they *saw* it.

What says nothing of a holder does not say that there is none: the content may have been replaced or
deleted while the holder trusts its last renewal.

| a candidate sees | it takes the lease |
|---|---|
| none, and has seen none before | at once |
| one that its holder has released | at once |
| another holder | the lease duration after that one's last renewal |
| no holder, damaged, or none where there was one | the lease duration after it saw that first |

There is no fencing: a write that is being sent when the lease expires cannot be cancelled.
Therefore `is_leader` is read before each write. It also notices a pause of the whole process, and
with the clock of `scheduler.service.clock` a suspension of the host.

Source: client-go v0.36.3 tools/leaderelection, LeaderElector.
Differs: the renew deadline counts from the last success, not from the attempt after it; another
holder that is seen ends the leadership at once, not at the deadline; a candidate tries again before
the retry period is over, and not up to 2.2 times later, so that a released lease is taken within
it; only a lease that its holder has released is taken without waiting (there, one without a holder
or that is gone); a duration that is shorter than our own counts as our own, and one that is longer
than ten minutes as ten minutes.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.requests import micro_stamp
from scheduler.kube.errors import KubeError, NotFound, Unreachable
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.model.times import Seconds

__all__ = ["LeaderElectionConfig", "LeaderElector", "unique_identity"]

#: A candidate waits for this part of the retry period, or a random time down to half of that.
PATIENCE: Final = 0.8
#: A holder is waited for no longer than this, or than our own lease duration: whoever can write the
#: lease once must not stop the election for years.
LONGEST_SECONDS: Final = 600.0
#: The duration in a lease that its holder has released.
#: Source: client-go v0.36.3 tools/leaderelection, LeaderElector.release.
RELEASED_SECONDS: Final = 1
#: `leaseTransitions` is an int32.
_MAX_TRANSITIONS: Final = 2**31 - 1


def unique_identity() -> str:
    """Return a name that is unique to this instance, also among those on the same host."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _loop_time() -> Seconds:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The lease, the identity of the candidate, and the periods of `leaderElection`."""

    namespace: str
    name: str
    identity: str
    #: How long others wait after the last renewal that they saw.
    duration_seconds: float = 15.0
    #: How long the holder trusts its last renewal; must be shorter.
    renew_deadline_seconds: float = 10.0
    #: Between two attempts.
    retry_seconds: float = 2.0


class LeaderElector:
    """A candidate for the lease, or its holder."""

    def __init__(
        self,
        client: Client,
        settings: LeaderElectionConfig,
        clock: Callable[[], Seconds],
        sleeper: Sleeper,
        elapsed: Callable[[], Seconds] = _loop_time,
        owner: ReleaseOwner | None = None,
    ) -> None:
        """Create an elector that does not hold the lease.

        Args:
            client: Sends the requests; used for nothing else, so that nothing delays a renewal.
            settings: The lease, the identity of the candidate, and the periods.
            clock: Seconds since the epoch, for the time stamps that are written.
            sleeper: Waits between attempts.
            elapsed: Seconds that never stop nor go backwards; only differences mean something.
            owner: Becomes an owner of the lease; `None` for none.
        """
        #: Why the last attempt failed; empty after a success.
        self.problem = ""
        self._client = client
        self._settings = settings
        self._clock = clock
        self._sleeper = sleeper
        self._elapsed = elapsed
        self._owner = owner or ReleaseOwner(settings.namespace, "", elapsed)
        #: The lease as last seen, empty where there is none; and when that was last seen to change,
        #: `None` while no lease was ever seen.
        self._lease: dict[str, Any] = {}
        self._changed_at: float | None = None
        #: How long the last known holder may trust its last renewal.
        self._seconds = settings.duration_seconds
        #: By `elapsed`; `None` while we do not hold the lease.
        self._held_until: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether we may write now."""
        return self._held_until is not None and self._elapsed() < self._held_until

    @property
    def holder(self) -> str:
        """The identity of the last known holder; empty when there is none."""
        return str(self._spec().get("holderIdentity") or "")

    async def acquire(self) -> bool:
        """Wait until we hold the lease; return whether the first attempt failed."""
        retry = self._settings.retry_seconds
        waited = False
        while not await self._attempt():
            waited = True
            await self._sleeper.sleep(retry * PATIENCE * (1 - self._sleeper.jitter() / 2))
        return waited

    async def keep_renewing(self) -> None:
        """Renew the lease; return when it is lost permanently."""
        try:
            while self._held_until is not None:
                await self._sleeper.sleep(self._settings.retry_seconds)
                async with asyncio.timeout(self._held_until - self._elapsed()):
                    await self._renew()
        except TimeoutError:
            self.problem = self.problem or "the lease could not be renewed in time"
        self._held_until = None

    async def release(self) -> None:
        """Release the lease, after all writes that it protects have ended; best effort."""
        was_ours = self._held_until is not None
        self._held_until = None
        if not was_ours:
            return
        now = micro_stamp(self._clock())
        try:
            await self._read()
            if self.holder == self._settings.identity:
                await self._write(
                    {
                        "holderIdentity": "",
                        "leaseDurationSeconds": RELEASED_SECONDS,
                        "acquireTime": now,
                        "renewTime": now,
                        "leaseTransitions": self._transitions(),
                    }
                )
        except KubeError as error:
            self.problem = str(error)

    async def _renew(self) -> None:
        """Try until the lease is renewed or held by another; the caller sets the deadline."""
        if await self._attempt(known=True):
            return
        while self._held_until is not None and not await self._attempt():
            if self.holder not in {"", self._settings.identity}:
                self._held_until = None
                return
            await self._sleeper.sleep(self._settings.retry_seconds)

    async def _attempt(self, *, known: bool = False) -> bool:
        """Try once to get or keep the lease.

        Args:
            known: Do not read the lease; replace the version that was last seen.
        """
        sent_at = self._elapsed()
        try:
            if not known:
                await self._read()
                if self._may_be_held_by_other():
                    self.problem = ""
                    return False
            await self._write(self._new_spec())
        except KubeError as error:
            self.problem = str(error)
            return False
        if self._held_until is not None and self._elapsed() >= self._held_until:
            return False  # too late: we have already refused writes, and another may lead
        self._held_until = sent_at + self._settings.renew_deadline_seconds
        self.problem = ""
        return True

    def _may_be_held_by_other(self) -> bool:
        """Return whether another instance may trust the lease; for the rules see the module."""
        if self.holder == self._settings.identity or self._changed_at is None:
            return False
        if self.is_leader:
            return self.holder != ""  # what was emptied or deleted is still ours
        return not self._is_released() and self._elapsed() < self._changed_at + self._seconds

    def _is_released(self) -> bool:
        """Return whether the content is what a holder writes that releases the lease."""
        spec = self._spec()
        return (
            spec.get("holderIdentity") == ""
            and spec.get("leaseDurationSeconds") == RELEASED_SECONDS
            and bool(spec.get("renewTime"))
        )

    def _transitions(self) -> int:
        number = self._spec().get("leaseTransitions")
        return number if isinstance(number, int) and 0 <= number < _MAX_TRANSITIONS else 0

    def _new_spec(self) -> dict[str, Any]:
        """Return the content of the lease with us as its holder."""
        now = micro_stamp(self._clock())
        transitions = self._transitions()
        acquired = self._spec().get("acquireTime") or now
        if self.holder != self._settings.identity:
            transitions = transitions + 1 if self._lease else 0
            acquired = now
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": max(1, int(self._settings.duration_seconds)),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _read(self) -> None:
        try:
            self._observe(await self._call("get", "GET", self._path(self._settings.name), None))
        except NotFound:
            if self._lease:
                self._observe({})

    async def _write(self, spec: dict[str, Any]) -> None:
        """Replace the content; refused when another instance was faster.

        Raises:
            KubeError: It was not replaced, or it is unknown whether it was. An answer that does not
                show what was written comes from something on the way, which must not make us lead.
        """
        lease: dict[str, Any] = self._lease or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._settings.namespace, "name": self._settings.name},
        }
        metadata = _object(lease, "metadata")

        async def send(changes: dict[str, Any]) -> dict[str, Any]:
            written = {**lease, "metadata": {**metadata, **changes}, "spec": spec}
            if self._lease:
                return await self._call("update", "PUT", self._path(self._settings.name), written)
            return await self._call("create", "POST", self._path(), written)

        answer = await self._owner.write(self._client, metadata, send)
        if _object(answer, "spec").get("holderIdentity") != spec["holderIdentity"]:
            raise Unreachable("the response to the write is not the lease that was written")
        self._observe(answer)

    async def _call(
        self, verb: str, method: str, path: str, lease: dict[str, Any] | None
    ) -> dict[str, Any]:
        request = Request(
            verb=verb,
            resource="leases",
            method=method,
            path=path,
            body=None if lease is None else msgspec.json.encode(lease),
            answer_seconds=self._settings.renew_deadline_seconds / 2,
        )
        try:
            return msgspec.json.decode(await self._client.call(request), type=dict[str, Any])
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error

    def _observe(self, lease: dict[str, Any]) -> None:
        """Note the lease as it is now, empty where there is none."""
        known, self._lease = self._lease, lease
        # What has no holder may have had one in between.
        changed = lease != known if not self.holder else lease.get("spec") != known.get("spec")
        if changed or self._changed_at is None:
            self._changed_at = self._elapsed()
        seconds = self._spec().get("leaseDurationSeconds")
        if self.holder and isinstance(seconds, int | float) and not isinstance(seconds, bool):
            longest = max(LONGEST_SECONDS, self._settings.duration_seconds)
            self._seconds = max(self._settings.duration_seconds, min(seconds, longest))

    def _spec(self) -> dict[str, Any]:
        return _object(self._lease, "spec")

    def _path(self, name: str = "") -> str:
        folder = f"/apis/coordination.k8s.io/v1/namespaces/{self._settings.namespace}/leases"
        return f"{folder}/{name}" if name else folder


def _object(document: dict[str, Any], field: str) -> dict[str, Any]:
    """Return an object in a document, empty where it is missing or something else."""
    found = document.get(field)
    return found if isinstance(found, dict) else {}
