"""Settings of the writer: how much at a time, how patiently, and its callbacks."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.kube.extenders import Extenders
from scheduler.kube.write.ledger_configmap import LedgerStore
from scheduler.model.effects import Evict

__all__ = ["Patience", "WriterSettings"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try."""

    #: No attempt begins later than that after the first one of the same effect.
    seconds: float = 30.0
    #: Pauses between attempts, doubling from the first to the last.
    first_pause_seconds: float = 0.05
    longest_pause_seconds: float = 5.0
    #: For how long a request may still be carried out whose connection was cut. API servers give up
    #: a request after a minute (`--request-timeout`); five seconds more are for etcd.
    unsettled_seconds: float = 65.0


def _wanted(_: Evict) -> bool:
    return True


def _raise(defect: Exception) -> None:
    raise defect


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How much at a time, how patiently, and who is asked."""

    #: The part of `reportingInstance` that tells replicas apart.
    host: str = ""
    #: Effects on their way at a time. What comes at once, etcd writes at once: with 64 it takes
    #: half as much CPU time again for each write when API server and scheduler have two cores.
    places: int = 192
    #: Events beyond this many are dropped. Upstream's queue holds 1000, but its events do not wait
    #: for bindings, as ours do: those of a large batch of pods must not get lost for that.
    events_waiting: int = 50_000
    patience: Patience = field(default_factory=Patience)
    #: Who is asked, and who may bind; `None` where no extender is configured.
    extenders: Extenders | None = None
    #: Where the ledger is written down; `None` for nowhere.
    ledger: LedgerStore | None = None
    #: Have the API server evict all victims, so that no right to delete pods is needed.
    evict_only: bool = False
    #: Asked right before an eviction is sent or sent again; where it says no, the effect fails as
    #: abandoned. It is not asked between the mark of a victim and its deletion.
    still_wanted: Callable[[Evict], bool] = _wanted
    #: Told what the sink, or the writer itself, raised when an effect had ended. What we know is
    #: whole no longer then, so the process must not go on with it.
    defect: Callable[[Exception], None] = _raise
