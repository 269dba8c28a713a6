"""The ConfigMap that holds the ledger, in our own namespace.

Only the leader writes, and each write names the version that it is based on. A write that is
refused shows that another instance has written, one that has just lost the lease. Its text is
merged with the text that is to be written, and the machine gets it as well.

Anything else may empty, damage or delete the ConfigMap. So every replica looks at it now and then.
The leader writes it again as it was. A replica that stands by remembers the last sound text, and
begins with that, too, if it becomes the leader and finds no sound one. What the leader has written
within the last look, and a crash forgets together with the ConfigMap, is lost.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import Conflict, KubeError, MissingRight, NotFound, Unreachable
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.write.own_configmap import ConfigMap, ConfigMapPlace, decoded
from scheduler.state.preemption import ledger_codec
from scheduler.state.preemption.ledger import Ledger, LedgerError

__all__ = ["LedgerStore"]

#: The key of the ConfigMap's data.
KEY: Final = "ledger.json"

#: Between two attempts to read the ledger when an instance becomes the leader.
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
#: Between two looks at the ConfigMap; the lease needs more than twice as many requests.
LOOK_SECONDS: Final = 5.0
#: How long the last look of a process that stops may take.
LAST_LOOK_SECONDS: Final = 2.0

#: The policies are not known here, so no entry counts as too old.
_ANY_TIME: Final = 0.0


class LedgerStore:
    """Reads and writes the ConfigMap; knows its last state.

    Args:
        namespace: Of the ConfigMap.
        name: Of the ConfigMap.
        on_loaded: Called with a text that this process has not written.
        owner: Becomes an owner of the ConfigMap; `None` for none.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        on_loaded: Callable[[str], None],
        owner: ReleaseOwner | None = None,
    ) -> None:
        self._place = ConfigMapPlace(namespace, name)
        self._on_loaded = on_loaded
        self._owner = owner or ReleaseOwner(namespace, "", lambda: 0.0)
        #: As it was last read or written.
        self._state = ConfigMap()
        #: The text that another instance has written since we wrote or read.
        self._foreign = ""
        #: The last sound text; it is what the ConfigMap is to hold.
        self._sound = ""
        #: Whether this process has loaded the ledger, so that it writes it from now on.
        self._loaded = False
        #: Writes that have begun, and those that are not answered yet.
        self._begun = self._unanswered = 0

    async def load_with_retries(self, client: Client, sleeper: Sleeper) -> str:
        """Return what earlier leaders have written; empty when there is nothing or no right to it.

        Waits as long as the API server does not answer. Without the right to read the ledger it
        cannot be written either: budgets then refuse, and everything that needs no ledger goes on.
        """
        backoff = ExponentialBackoff(sleeper, FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        while True:
            try:
                return await self.load(client)
            except MissingRight as error:
                client.observer.ledger_forbidden(str(error))
                return self._sound
            except KubeError as error:
                client.observer.ledger_unreadable(str(error))
                await backoff.wait()

    async def load(self, client: Client) -> str:
        """Read the ledger, to write it from now on; empty when there is none.

        If it is not sound, `on_loaded` gets the last text that was.

        Raises:
            KubeError: It cannot be read.
        """
        self._state = await self._place.read(client)
        self._loaded = True
        text = _text(self._state)
        if _is_sound(text) or not self._sound:
            self._sound = text
        else:
            self._foreign = text  # the next look writes both
            self._on_loaded(self._sound)
        return text

    async def keep(self, client: Client, may_write: Callable[[], bool], sleeper: Sleeper) -> None:
        """Look at the ConfigMap now and then, until cancelled."""
        while True:
            await sleeper.sleep(LOOK_SECONDS)
            await self.look(client, may_write)

    async def look_last(self, client: Client, may_write: Callable[[], bool]) -> None:
        """Look at the ConfigMap before a leader stops, and the next one reads it."""
        if may_write():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_LOOK_SECONDS):
                    await self.look(client, may_write)

    async def look(self, client: Client, may_write: Callable[[], bool]) -> None:
        """Remember a sound text; if we lead, write the ConfigMap again when it was changed."""
        begun = self._begun
        try:
            found = await self._place.read(client)
        except KubeError:
            return  # whoever must read or write it finds out, and tells
        if self._unanswered or self._begun != begun:
            return  # such a write finds out by itself
        known, self._state = self._state, found
        if self._loaded and may_write():
            if _text(found) != self._sound:
                await self._restore(client)
        elif found.version != known.version and _is_sound(_text(found)):
            self._sound = _text(found)

    async def _restore(self, client: Client) -> None:
        """Write the ConfigMap again, with what another instance may have added."""
        self._foreign = _text(self._state)
        client.observer.ledger_changed(_described(self._state))
        if self._foreign:
            self._on_loaded(self._foreign)
        wanted = self._merged(self._sound)
        if wanted in ("", self._foreign):
            self._sound, self._foreign = wanted, ""
            return
        try:
            await self.save(client, self._sound)
        except (Conflict, NotFound):
            pass  # someone was faster; the next look finds out
        except KubeError as error:
            client.observer.ledger_not_restored(str(error))

    def request(self, text: str, changes: dict[str, Any] | None = None) -> Request:
        """Return the request that replaces the last state.

        Args:
            text: The ledger.
            changes: Fields of the metadata that change, too.
        """
        return self._place.request(self._state, {"data": {KEY: text}}, changes)

    async def save(self, client: Client, text: str) -> None:
        """Write a text, merged with foreign text.

        Raises:
            Conflict, NotFound: Another instance has written meanwhile; it is to be tried again.
            KubeError: It could not be written, or it is unknown whether it was.
        """
        merged = self._merged(text)
        self._begun += 1
        self._unanswered += 1
        try:
            answer = await self._owner.write(
                client,
                self._state.metadata,
                lambda changes: client.call(self.request(merged, changes)),
            )
        except (Conflict, NotFound):
            self._state = await self._place.read(client)
            if _text(self._state) != merged:  # else an earlier attempt wrote it
                if _text(self._state) != self._sound:  # else nothing but its metadata was changed
                    self._foreign = _text(self._state)
                    if self._foreign:
                        self._on_loaded(self._foreign)
                raise
        else:
            written = decoded(answer)
            if _text(written) != merged:
                raise Unreachable("the response to the write is not the ledger that was written")
            self._state = written
        finally:
            self._unanswered -= 1
        self._foreign, self._sound = "", merged

    def _merged(self, text: str) -> str:
        """Return a text merged with what another instance has written."""
        if not self._foreign:
            return text
        both, readable = Ledger(), []
        for each in filter(None, (text, self._foreign)):
            with contextlib.suppress(LedgerError):
                both.merge(each)
                readable.append(each)
        if len(readable) < 2:
            return readable[0] if readable else text
        return both.text(_ANY_TIME)


def _text(found: ConfigMap) -> str:
    return found.data.get(KEY, "")


def _is_sound(text: str) -> bool:
    """Return whether a text is a ledger of which nothing has to be dropped."""
    try:
        return ledger_codec.decoded(text, None)[1] == 0
    except LedgerError:
        return False


def _described(found: ConfigMap) -> str:
    """Return what has become of the ConfigMap."""
    if not found.version:
        return "it was deleted"
    return "it was changed" if _text(found) else "it was emptied"
