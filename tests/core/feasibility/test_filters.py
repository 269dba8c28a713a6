"""The cached verdicts of a class are those of a full pass; so are the scores."""

import numpy as np
import pytest

from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.feasibility.scores import ClassScores
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import CompiledScore, Reads
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster as State
from scheduler.state.columns.arrays import Scores
from scheduler.state.views.node_view import NodeView
from tests.support.builders import OURS, node, pod
from tests.support.cluster import profiles
from tests.support.plugin_checks import ATTEMPT

WANTED = (
    pod("p").cpu("2").memory("1Gi").port(80).selects(zone="a").image("app:1")
    .tolerates("soft", operator="Exists").build()
)  # fmt: skip

#: A pod that only requests resources, so that single rows are checked without arrays.
PLAIN = pod("plain").cpu("2").memory("1Gi").build()


class Kept:
    """A class with warm caches; a class that is compiled afresh is compared with it."""

    def __init__(self, wanted: Pod = WANTED, rows: int = 40) -> None:
        self.state = State()
        self.verdicts = Verdicts()
        self.profile = profiles()[OURS]
        self.wanted = wanted
        for number in range(rows):
            self.state.write_node(self.node(number).build())
        self.filtering, self.scoring = self._compiled()

    @staticmethod
    def node(number: int):
        built = node(f"n{number}").cpu(str(number % 9)).memory("8Gi").pods(3)
        return built.label("zone", "ab"[number % 2])

    def _compiled(self) -> tuple[ClassFilters, ClassScores]:
        predicates = self.profile.compile_filters(self.wanted, self.state, self.verdicts)
        return (
            ClassFilters(self.state, predicates),
            ClassScores(self.state, self.profile.compile_scores(self.wanted, self.state)),
        )

    def answers(self, compiled: tuple[ClassFilters, ClassScores]) -> tuple[list[int], dict]:
        filtering, scoring = compiled
        attempt = AttemptState(self.wanted, 0.0)
        codes, fitting = filtering.run_all(filtering.pre_filter(attempt))
        feasible = np.flatnonzero(codes == 0)
        assert fitting.tolist() == feasible.tolist()
        weighted = scoring.weighted(feasible, attempt) if feasible.shape[0] else {}
        scores = {name: values.tolist() for name, values in weighted.items()}
        if feasible.shape[0]:
            scores["best"] = scoring.best(fitting, attempt).tolist()
        return codes.tolist(), scores

    def agrees(self) -> bool:
        """Return whether the cached results are those of a full pass."""
        kept = self.answers((self.filtering, self.scoring))
        return kept == self.answers(self._compiled())


@pytest.fixture(params=[WANTED, PLAIN], ids=["choosy", "plain"])
def kept(request) -> Kept:
    made = Kept(request.param)
    assert made.agrees()
    return made


def on(name: str, where: str, cpu: str = "1"):
    return pod(name).on(where).cpu(cpu).build()


@pytest.mark.parametrize("seed", range(5))
def test_one_change_after_the_other_is_followed(seed):
    kept, random = Kept(PLAIN, rows=20), np.random.default_rng(seed)
    placed: set[int] = set()
    for _ in range(60):
        # Few equal nodes, so that the best are often one or two, and come and go.
        number = int(random.choice((7, 8, 16, 17)))
        if number in placed:
            kept.state.remove(f"uid:default/q{number}")
        else:
            kept.state.place(on(f"q{number}", f"n{number}"), f"n{number}")
        placed ^= {number}
        assert kept.agrees()


# Filters that read more than the row


def three_nodes() -> State:
    state = State()
    for number in range(4):
        state.write_node(node(f"n{number}").build())
    return state


class Raw(CompiledScore):
    """Scores rows by a list that can change, with a token that says so."""

    def __init__(self, scores: list[int], *, reads: Reads = Reads.NODE) -> None:
        self.by_row = scores
        self.reads = reads
        self.version = 0

    def cache_key(self) -> int:
        return self.version

    def scores(self, nodes: NodeView) -> Scores:
        return np.array([self.by_row[row] for row in nodes.rows], dtype=np.int64)


def test_scores_that_read_the_cluster_are_computed_each_time():
    state, raw = three_nodes(), Raw([1, 2, 3, 4], reads=Reads.CLUSTER)
    scoring = ClassScores(state, [("Raw", 1, raw)])
    rows = np.array([0, 3])
    assert scoring.weighted(rows, ATTEMPT)["Raw"].tolist() == [1, 4]

    raw.by_row = [9, 9, 9, 9]

    assert scoring.weighted(rows, ATTEMPT)["Raw"].tolist() == [9, 9]


def test_the_ranking_agrees_with_the_sum_of_the_explained_scores(kept):
    rows = np.flatnonzero(np.array(kept.answers((kept.filtering, kept.scoring))[0]) == 0)

    ranking = kept.scoring.ranking(rows, ATTEMPT)
    totals = sum(kept.scoring.weighted(rows, ATTEMPT).values())

    assert rows.shape[0] > 2
    assert len(set((totals - ranking).tolist())) == 1
