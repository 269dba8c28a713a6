import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import CapturingLogger

from scheduler.model.decisions import (
    Attempt,
    Decision,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Bind, Evict, Nominate, PodRef, RecordEvent
from scheduler.model.events import EffectDone, EffectFailed, Failure, FailureKind
from scheduler.model.policies import PolicyMode
from scheduler.model.policy_vetoes import Rule, RuleVeto
from scheduler.observe.logs.attempt_log import AttemptLog

POD = PodRef("shop", "web", "uid-1")
VICTIM = PodRef("shop", "low", "uid-2")
EVICT = Evict(VICTIM, "n1", POD, "p", 1)
NOMINATE = Nominate(POD, "n1", "full", 1)
CONFLICT = Failure(FailureKind.CONFLICT, "is bound")


class Bench:
    """An attempt log with all its records."""

    def __init__(self, verbosity: int = 2) -> None:
        self._captured = CapturingLogger()
        logger = structlog.wrap_logger(
            self._captured,
            processors=[lambda logger, level, event: ((), {"level": level, **event})],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.log = AttemptLog(logger, verbosity)

    @property
    def records(self) -> list[dict[str, object]]:
        return [call.kwargs for call in self._captured.calls]

    @property
    def events(self) -> list[tuple[object, object]]:
        return [(call["level"], call["event"]) for call in self.records]


def attempt(decision: Decision) -> Attempt:
    return Attempt(POD, "p", 7, decision, (), 3, nodes=10, feasible=4)


PLACED = attempt(Placed("n1"))
PREEMPTING = attempt(Preempting("n1", (VICTIM,), 1, "0/10 nodes are available"))
REFUSALS = tuple(
    RuleVeto("small-steps", Rule.MAX_VICTIMS, mode, "at most 1 victim per preemption")
    for mode in (PolicyMode.ENFORCE, PolicyMode.AUDIT)
)
PLANNED = {
    "level": "info", "event": "preemption_planned", "pod": "shop/web", "node": "n1",
    "attempts": 3, "priority": 7, "victims": ["shop/low"], "victim_count": 1, "violations": 1,
    "message": "0/10 nodes are available",
}  # fmt: skip
AUDITED = {
    "level": "info", "event": "preemption_audited", "pod": "shop/web", "policy": "small-steps",
    "rule": "maxVictimsPerPreemption",
    "message": 'PreemptionPolicy "small-steps" refuses: at most 1 victim per preemption',
}  # fmt: skip


@pytest.mark.parametrize(
    ("happen", "want"),
    [
        pytest.param(
            lambda log: (
                log.attempt(PLACED),
                log.bound(PLACED, "n1", 0.0123456789),
                log.outcome(EffectDone(Bind(POD, "n1", "p"))),
            ),
            [
                {
                    "level": "info", "event": "pod_bound", "pod": "shop/web", "node": "n1",
                    "attempts": 3, "nodes": 10, "feasible": 4, "seconds": 0.012346,
                }
            ],
            id="a bound pod",
        ),
        pytest.param(
            lambda log: (
                log.bind_failed(PLACED, "n1", CONFLICT),
                log.outcome(EffectFailed(Bind(POD, "n1", "p"), CONFLICT)),
            ),
            [
                {
                    "level": "warning", "event": "bind_failed", "pod": "shop/web", "node": "n1",
                    "attempts": 3, "cause": "conflict", "message": "is bound",
                }
            ],
            id="a failed binding",
        ),
        pytest.param(lambda log: log.attempt(PREEMPTING), [PLANNED], id="a preemption"),
        pytest.param(
            lambda log: log.attempt(replace(PREEMPTING, vetoes=REFUSALS)),
            [PLANNED, AUDITED],
            id="a refusal of a policy in audit mode",
        ),
        pytest.param(
            lambda log: log.outcome(EffectDone(EVICT)),
            [
                {
                    "level": "info", "event": "victim_evicted", "pod": "shop/low", "node": "n1",
                    "preemptor": "shop/web",
                }
            ],
            id="an eviction",
        ),
    ],
)  # fmt: skip
def test_what_happens_is_logged_once(happen, want):
    bench = Bench()

    happen(bench.log)

    assert bench.records == want


def test_of_many_victims_some_are_named_and_all_are_counted():
    bench = Bench()
    victims = tuple(PodRef("shop", f"low-{i}", f"uid-{i}") for i in range(500))

    bench.log.attempt(attempt(Preempting("n1", victims, 0, "full")))

    (record,) = bench.records
    assert (len(record["victims"]), record["victim_count"]) == (20, 500)


def test_a_long_message_is_cut():
    bench = Bench()

    bench.log.attempt(attempt(Unschedulable("x" * 5_000)))

    (record,) = bench.records
    assert len(record["message"]) == 1_024
    assert record["message"].endswith("x ...")


@pytest.mark.parametrize(
    ("decision", "want"),
    [
        pytest.param(Unschedulable("full"), [("info", "pod_unschedulable")], id="fits nowhere"),
        pytest.param(Failed("boom"), [("error", "attempt_failed")], id="failed"),
        pytest.param(Gated("gates"), [], id="gated"),
        pytest.param(Placed("n1"), [], id="placed, and logged when bound"),
    ],
)
def test_an_attempt_has_at_most_one_line(decision, want):
    bench = Bench()

    bench.log.attempt(attempt(decision))

    assert bench.events == want


@pytest.mark.parametrize(
    ("verbosity", "want"),
    [
        pytest.param(0, ["preemption_planned", "victim_evicted"], id="0: pods that are deleted"),
        pytest.param(
            2,
            ["pod_unschedulable", "preemption_planned", "pod_bound", "victim_evicted"],
            id="2: attempts",
        ),
        pytest.param(
            4,
            [
                "pod_unschedulable",
                "preemption_planned",
                "pod_bound",
                "victim_evicted",
                "effect_done",
                "extenders_asked",
            ],
            id="4: effects",
        ),
    ],
)
def test_verbosity_decides_what_is_logged(verbosity, want):
    bench = Bench(verbosity)

    bench.log.attempt(attempt(Unschedulable("full")))
    bench.log.attempt(attempt(Preempting("n1", (VICTIM,), 0, "full")))
    bench.log.bound(attempt(Placed("n1")), "n1", 0.1)
    bench.log.outcome(EffectDone(EVICT))
    bench.log.outcome(EffectDone(NOMINATE))
    bench.log.attempt(attempt(Waiting((0,))))

    assert [event for _, event in bench.events] == want


@pytest.mark.parametrize(
    ("effect", "failure", "want"),
    [
        pytest.param(EVICT, CONFLICT, "warning", id="an eviction that was refused"),
        pytest.param(NOMINATE, CONFLICT, "warning", id="a nomination that was refused"),
        pytest.param(
            EVICT, Failure(FailureKind.GONE, "not found"), "debug", id="a victim that is gone"
        ),
        pytest.param(
            RecordEvent(POD, "Normal", "Scheduled", "Binding", "", "p"),
            Failure(FailureKind.UNAVAILABLE, "429"),
            "debug",
            id="an Event",
        ),
    ],
)
def test_a_failed_effect_is_a_warning_unless_it_was_to_be_expected(effect, failure, want):
    bench = Bench()

    bench.log.outcome(EffectFailed(effect, failure))

    assert bench.events == [(want, "effect_failed")]
    assert bench.records[0]["cause"] == failure.kind.value


def test_a_failed_eviction_is_logged_with_victim_and_preemptor():
    bench = Bench()

    bench.log.outcome(EffectFailed(EVICT, CONFLICT))

    record = bench.records[0]
    assert (record["pod"], record["preemptor"]) == (EVICT.victim.key, EVICT.preemptor.key)
