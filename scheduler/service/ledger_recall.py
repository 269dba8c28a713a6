"""Reads what earlier leaders have written down, before anything is decided."""

from structlog.typing import FilteringBoundLogger

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.kube.write.ledger_configmap import LedgerStore

__all__ = ["LedgerRecall"]

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class LedgerRecall:
    """Where the ledger comes from when an instance becomes the leader."""

    def __init__(
        self, ledger: LedgerStore, client: Client, pauses: Sleeper, log: FilteringBoundLogger
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._pauses = pauses
        self._log = log

    async def recall(self) -> str:
        """Return what was written down; empty when there is nothing, or when we may not read it.

        Waits as long as the API server does not answer. Without the right to read it, nothing can
        be written down either: budgets then refuse, and whatever needs no memory goes on.
        """
        backoff = ExponentialBackoff(self._pauses, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                return await self._ledger.load(self._client)
            except Forbidden as error:
                self._log.warning("ledger_forbidden", problem=str(error))
                return ""
            except KubeError as error:
                self._log.warning("ledger_unreadable", problem=str(error))
                await self._pauses.sleep(backoff.delay(None))
