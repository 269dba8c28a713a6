"""Settings of the writer: limits, timeouts and callbacks."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.kube.extenders import Extenders
from scheduler.kube.write.ledger_configmap import LedgerStore
from scheduler.model.effects import Evict

__all__ = ["Patience", "WriterSettings"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an effect is tried."""

    #: No attempt begins later than this after the first one of the same effect.
    seconds: float = 30.0
    #: Pauses between attempts, doubling from the first to the last.
    first_pause_seconds: float = 0.05
    longest_pause_seconds: float = 5.0
    #: How long the API server may still carry out a request whose connection was cut. It gives up
    #: a request after a minute (`--request-timeout`); five seconds more are for etcd.
    uncertain_seconds: float = 65.0


def _wanted(_: Evict) -> bool:
    return True


def _raise(defect: Exception) -> None:
    raise defect


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Limits, timeouts and callbacks of the writer."""

    #: The part of `reportingInstance` that distinguishes replicas.
    host: str = ""
    #: Effects that are sent at a time. etcd writes together what arrives together: with 64 each
    #: write takes half as much CPU time again when API server and scheduler have two cores.
    places: int = 192
    #: Events beyond this many are dropped. Upstream's queue holds 1000, but its events do not wait
    #: for bindings, as ours do: the events of a large batch of pods must not get lost for that.
    events_waiting: int = 50_000
    patience: Patience = field(default_factory=Patience)
    #: Answers `Ask` effects, and may bind; `None` where no extender is configured.
    extenders: Extenders | None = None
    #: Where the ledger is stored; `None` for nowhere.
    ledger: LedgerStore | None = None
    #: Evict all victims through the eviction API, so that no right to delete pods is needed.
    evict_only: bool = False
    #: Called right before an eviction is sent or sent again; where it returns false, the effect
    #: fails as abandoned. It is not called between the condition of a victim and its deletion.
    still_wanted: Callable[[Evict], bool] = _wanted
    #: Called with an exception of the sink, or of the writer itself, when an effect had ended. Our
    #: state may be incomplete then, so the process must not continue with it.
    defect: Callable[[Exception], None] = _raise
