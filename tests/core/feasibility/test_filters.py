"""The cached verdicts of a class are those of a full pass; so are the scores."""

import numpy as np
import pytest

from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.feasibility.scores import ClassScores
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import CompiledFilter, CompiledScore, Reads
from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster as State
from scheduler.state.columns.arrays import Codes, Scores
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


def test_a_row_without_a_node_has_no_verdict(kept):
    kept.state.place(on("q", "imaginary"), "imaginary")

    codes, _ = kept.answers((kept.filtering, kept.scoring))

    assert codes[-1] == NO_NODE
    assert kept.agrees()


CHANGES = {
    "a pod is placed": lambda state: state.place(on("q", "n4"), "n4"),
    "a pod takes the port": lambda state: state.place(pod("q").on("n4").port(80).build(), "n4"),
    "a pod fills a node": lambda state: state.place(on("q", "n8", "7"), "n8"),
    "a node grows": lambda state: state.write_node(Kept.node(4).cpu("64").build()),
    "a node is cordoned": lambda state: state.write_node(Kept.node(4).cordoned().build()),
    "a node is tainted": lambda state: state.write_node(Kept.node(4).taint("a").build()),
    "a node moves": lambda state: state.write_node(Kept.node(4).label("zone", "b").build()),
    "a node gets the image": lambda state: state.write_node(
        Kept.node(4).image("app:1", 10**9).build()
    ),
    "a node gets a soft taint": lambda state: state.write_node(
        Kept.node(4).taint("other", effect="PreferNoSchedule").build()
    ),
    "a node goes": lambda state: state.erase_node("n4"),
    "a node comes": lambda state: state.write_node(
        node("new").cpu("32").memory("8Gi").label("zone", "a").build()
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_cache_follows_when(kept, change):
    change(kept.state)

    assert kept.agrees()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_cache_is_correct_when_a_change_is_undone(kept, change):
    change(kept.state)
    kept.agrees()

    kept.state.remove("uid:default/q")
    kept.state.write_node(Kept.node(4).build())
    kept.state.erase_node("new")

    assert kept.agrees()


def test_many_changes_at_once_are_followed(kept):
    for number in range(40):
        kept.state.place(on(f"q{number}", f"n{number}"), f"n{number}")

    assert kept.agrees()


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


def test_a_small_cluster_is_followed_too():
    small = Kept(rows=3)
    small.state.place(on("q", "n2"), "n2")

    assert small.agrees()


def test_a_row_that_is_used_again_is_checked_again(kept):
    kept.state.erase_node("n4")
    kept.agrees()

    kept.state.write_node(node("other").cpu("64").memory("8Gi").label("zone", "a").build())

    assert kept.agrees()


# Filters that read more than the row


class Last(CompiledFilter):
    """Rejects every node but the last one of the view it is given."""

    reads = Reads.CLUSTER

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[list[int]] = []

    def codes(self, nodes: NodeView) -> Codes:
        self.asked.append(nodes.rows.tolist())
        codes = np.full(len(nodes), self.code, dtype=np.uint16)
        codes[-1:] = 0
        return codes


class Third(CompiledFilter):
    """Rejects every third row."""

    reads = Reads.PODS

    def codes(self, nodes: NodeView) -> Codes:
        return (nodes.rows % 3 == 0).astype(np.uint16) * np.uint16(7)


def three_nodes() -> State:
    state = State()
    for number in range(4):
        state.write_node(node(f"n{number}").build())
    return state


def test_a_cluster_wide_filter_gets_the_survivors_of_the_others():
    state, last = three_nodes(), Last(9)
    filtering = ClassFilters(state, [("Third", Third()), ("Last", last)])

    codes, _ = filtering.run_all(filtering.pre_filter(ATTEMPT))

    assert last.asked == [[1, 2]]
    assert codes.tolist() == [7, 9, 0, 7]


def test_a_cluster_wide_filter_is_not_run_without_survivors():
    state, last = three_nodes(), Last(9)
    for number in (1, 2):
        state.erase_node(f"n{number}")
    filtering = ClassFilters(state, [("Third", Third()), ("Last", last)])

    assert filtering.run_all(filtering.pre_filter(ATTEMPT))[0].tolist() == [7, NO_NODE, NO_NODE, 7]
    assert last.asked == []


def test_a_cluster_wide_filter_that_comes_first_names_the_reason():
    state, last = three_nodes(), Last(9)
    filtering = ClassFilters(state, [("Last", last), ("Third", Third())])

    assert filtering.run_all(filtering.pre_filter(ATTEMPT))[0].tolist() == [9, 9, 9, 7]


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


def test_scores_are_recomputed_when_their_token_changes():
    state, raw = three_nodes(), Raw([1, 2, 3, 4])
    scoring = ClassScores(state, [("Raw", 10, raw)])
    rows = np.array([1, 3])
    assert scoring.weighted(rows, ATTEMPT)["Raw"].tolist() == [20, 40]

    raw.by_row, raw.version = [5, 6, 7, 8], 1

    assert scoring.weighted(rows, ATTEMPT)["Raw"].tolist() == [60, 80]


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
