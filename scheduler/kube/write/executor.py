"""Carries out effects: which calls, in which order, and what their responses mean.

`bindings`, `volume_bindings`, `resource_claims`, `evictions` and `pod_statuses` send what their
names say; this module dispatches to them, and sends the rest.

| effect | calls | done already | otherwise |
|---|---|---|---|
| Bind | POST pods/binding | bound to this node: done | other node: conflict; no pod: gone |
| BindVolumes | PATCH pods/status, volumes, claims | written so: done | other state: conflict |
| BindClaims | PATCH claims, some pods/status first | reserved: done | other state: conflict |
| ReleaseClaims | PATCH resourceclaims/status | no claim: done | |
| DeallocateClaim | PATCH resourceclaims/status | | other state: conflict |
| DeleteClaim | GET, PATCH, DELETE resourceclaims | no claim: done | |
| Nominate, SetCondition, ClearNomination | PATCH pods/status | | no pod: gone |
| Evict | PATCH pods/status, then DELETE | no pod: done | |
| Evict, strict | POST pods/eviction | no pod: done | disruption budget: refused |
| SaveLedger | PATCH or POST configmaps | written so: done | other state: both are merged |
| RecordEvent | POST or PATCH events | | |
| Ask | GET pods, then POST to extenders | | no pod: gone |

"No pod" includes another pod of the same name: every call names the uid. For a binding it counts
only when the pod was looked up. If an extender binds, it is called first; if it fails and may be
ignored, this module binds.

A request with a transient error (401, 429, 500 and above, no response) is sent again with backoff,
until the retry time of the effect ends. `scheduler.kube.write.bindings` handles a binding whose
result is unknown. Before an eviction is sent, or sent again, the machine checks whether it is still
needed.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.kube.client import requests
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client, Request, body_of
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    Unreachable,
)
from scheduler.kube.extenders import ExtenderError
from scheduler.kube.write.bindings import Bindings
from scheduler.kube.write.effect_queue import QueuedEffect
from scheduler.kube.write.event_recorder import EventRecorder, Series
from scheduler.kube.write.evictions import Evictions
from scheduler.kube.write.pod_statuses import PodStatusWriter
from scheduler.kube.write.resource_claims import Claims
from scheduler.kube.write.retry import (
    TRANSIENT,
    FirstAnswer,
    RetryAttempt,
    RetryPolicy,
    failure_kind,
)
from scheduler.kube.write.volume_bindings import VolumeBindings
from scheduler.kube.write.writer_settings import Patience, WriterSettings
from scheduler.model.effects import (
    Ask,
    Bind,
    BindClaims,
    BindVolumes,
    ClearNomination,
    DeallocateClaim,
    DeleteClaim,
    Evict,
    Nominate,
    RecordEvent,
    ReleaseClaims,
    SaveLedger,
    SetCondition,
)
from scheduler.model.events import Failure
from scheduler.model.times import Seconds

__all__ = ["EffectExecutor", "FirstAnswer", "Patience"]

#: The effects whose requests are usually sent without a task.
_WITHOUT_TASK: Final = (Bind, BindClaims, RecordEvent)


def _ignore(_: bytes) -> None:
    """Read nothing."""


class EffectExecutor:
    """Carries out effects, many at a time."""

    def __init__(
        self,
        client: Client,
        gate: Callable[[], bool],
        clock: Callable[[], Seconds],
        sleeper: Sleeper,
        settings: WriterSettings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._extenders = settings.extenders
        self._ledger = settings.ledger
        self._recorder = EventRecorder(settings.host)
        self._retry = RetryPolicy(client, gate, sleeper, settings)
        self._bindings = Bindings(client, self._retry, settings.extenders)
        self._volumes = VolumeBindings(client, self._retry)
        self._evictions = Evictions(self._retry, clock, evict_only=settings.evict_only)
        self._pod_statuses = PodStatusWriter(self._retry, clock)
        self._claims = Claims(client, self._retry, clock)
        self._defect = settings.defect

    @property
    def uncertain_evictions(self) -> int:
        """How many evictions ended without an answer and may still be carried out."""
        return self._evictions.uncertain

    def stop(self) -> None:
        """Begin no more writes, except for those that finish what was begun."""
        self._retry.stop()

    def start(self, entry: QueuedEffect, then: Callable[[FirstAnswer | None], None]) -> bool:
        """Send the requests of a binding, of claims or an Event without a task, if possible.

        Most need no more than that, and a task for each would cost more than the request. The first
        one is sent at once, and each further one when the one before it has succeeded.

        Args:
            entry: What to carry out.
            then: Called later, once: with `None` when it is done, else with the argument for
                `execute`.

        Returns:
            Whether it was sent; otherwise `then` is not called, and `execute` does all of it.
        """
        effect = entry.effect
        if not isinstance(effect, _WITHOUT_TASK) or not self._retry.may_start(effect):
            return False
        match effect:
            case BindClaims():
                request = self._claims.first_request(effect, entry)
                return request is not None and self._start_claims(request, effect, entry, then)
            case Bind():
                if effect.extender is not None:
                    return False
                return self._dispatch(requests.bind(effect), _ignore, partial(then, None), then)
            case RecordEvent():
                series = self._series(effect, entry)
                if series is None or series.written:
                    return False
                request = self._recorder.request(effect, series, entry.since)
                return self._dispatch(
                    request,
                    lambda _: self._recorder.written(series, self._clock()),
                    partial(then, None),
                    then,
                )

    def _start_claims(
        self,
        request: Request,
        effect: BindClaims,
        entry: QueuedEffect,
        then: Callable[[FirstAnswer | None], None],
    ) -> bool:
        """Send a request for claims; each further one follows when the one before has succeeded."""

        def go_on() -> None:
            following = self._claims.next_request(effect, entry)
            if following is None:
                then(None)
            elif not self._retry.may_start(effect) or not self._start_claims(
                following, effect, entry, then
            ):
                then(FirstAnswer(following, None))

        return self._dispatch(request, partial(self._claims.written, effect, entry), go_on, then)

    def _dispatch(
        self,
        request: Request,
        read: Callable[[bytes], None],
        go_on: Callable[[], None],
        then: Callable[[FirstAnswer | None], None],
    ) -> bool:
        """Send a request without a task; return whether it was sent.

        Args:
            request: The request.
            read: Called with the body of a success; it may raise a KubeError.
            go_on: Called after that.
            then: Called with a first answer that is no success.
        """

        def answered(answer: Reply | Unreachable) -> None:
            try:
                try:
                    read(body_of(request, answer))
                except KubeError:
                    then(FirstAnswer(request, answer))
                else:
                    go_on()
            except Exception as error:  # noqa: BLE001 - the connection is not to blame for it
                self._defect(error)

        return self._client.dispatch(request, answered)

    async def execute(
        self, entry: QueuedEffect, first_answer: FirstAnswer | None = None
    ) -> Failure | None:
        """Carry out an effect, or continue it; return the failure if there is one."""
        try:
            if first_answer is None:
                await self._retry.wait_turn(entry.effect)
            await self._carry_out(self._retry.start(entry, first_answer))
        except KubeError as error:
            return Failure(failure_kind(error), str(error))
        return None

    async def _carry_out(self, attempt: RetryAttempt) -> None:
        match attempt.entry.effect:
            case Bind() as effect:
                await self._bindings.bind(effect, attempt)
            case BindVolumes() as effect:
                await self._volumes.bind(effect, attempt)
            case Nominate() | SaveLedger() | Evict() | ClearNomination() as effect:
                await self._preempt(effect, attempt)
            case SetCondition() as effect:
                await self._pod_statuses.set_condition(effect, attempt)
            case BindClaims() | ReleaseClaims() | DeallocateClaim() | DeleteClaim() as effect:
                await self._claims.carry_out(effect, attempt)
            case RecordEvent() as effect:
                await self._record_event(effect, attempt)
            case Ask() as effect:
                await self._ask(effect, attempt)

    async def _preempt(
        self, effect: Nominate | SaveLedger | Evict | ClearNomination, attempt: RetryAttempt
    ) -> None:
        """Carry out one step of a preemption, or clear its nomination."""
        match effect:
            case Nominate():
                await self._pod_statuses.nominate(effect, attempt)
            case SaveLedger():
                await self._save_ledger(effect, attempt)
            case Evict():
                await self._evictions.evict(effect, attempt)
            case ClearNomination():
                await self._pod_statuses.clear(effect, attempt)

    async def _ask(self, effect: Ask, attempt: RetryAttempt) -> None:
        """Ask extenders. It changes nothing in the cluster, so a shutdown does not wait for it."""
        self._retry.check(attempt)
        if self._extenders is None:
            raise ExtenderError("no extender is configured")
        with self._retry.stoppable():
            attempt.entry.answers = await self._extenders.ask(effect)

    async def _save_ledger(self, effect: SaveLedger, attempt: RetryAttempt) -> None:
        """Write the ledger, merged with what another instance has written meanwhile."""
        if self._ledger is None:
            raise ApiError(0, "", "there is no place to write the ledger to")
        while True:
            self._retry.check(attempt)
            try:
                await self._ledger.save(self._client, effect.text)
            except (Conflict, NotFound, *TRANSIENT) as error:
                await self._retry.pause(self._ledger.request(effect.text), error, attempt)
            else:
                return

    async def _record_event(self, effect: RecordEvent, attempt: RetryAttempt) -> None:
        entry = attempt.entry
        series = self._series(effect, entry)
        if series is None:
            return
        written = False
        try:
            await self._retry.write(self._recorder.request(effect, series, entry.since), attempt)
            written = True
        finally:
            if written:
                self._recorder.written(series, self._clock())
            else:
                self._recorder.failed(effect, series)

    def _series(self, effect: RecordEvent, entry: QueuedEffect) -> Series | None:
        """Count an Event once; return its series if a request is due."""
        if not entry.counted:
            entry.counted, entry.series = True, self._recorder.record(effect, entry.since)
        return entry.series
