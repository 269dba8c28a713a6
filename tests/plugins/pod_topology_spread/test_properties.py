"""On random histories PodTopologySpread decides as an oracle with plain loops does."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.plugin import SKIP, CompiledFilter, CompiledScore
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import LabelSelector, Pod, Requirement, TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from scheduler.state.views.node_view import NodeView
from tests.support.affinities import (
    HOSTNAME,
    ZONE,
    Twin,
    changes,
    constraint,
    hypothetical_views,
    labels,
    pods,
    reasons,
    service,
    spread,
)
from tests.support.builders import PodBuilder
from tests.support.oracle_affinity import Spread, spread_scores
from tests.support.plugin_checks import ATTEMPT, in_attempt

_SELECTORS: st.SearchStrategy[LabelSelector | None] = st.sampled_from(
    [
        None,
        labels(),
        labels(app="x"),
        labels(app="x"),
        labels(Requirement("app", "NotIn", ["x"])),
    ]
)
_CONSTRAINTS = st.builds(
    lambda key, skew, soft, fields: constraint(key, skew=skew, soft=soft, **fields),
    st.sampled_from([ZONE, ZONE, HOSTNAME, "disk"]),
    st.integers(1, 3),
    st.booleans(),
    st.fixed_dictionaries(
        {
            "label_selector": _SELECTORS,
            "match_label_keys": st.sampled_from([[], [], ["app"]]),
            "min_domains": st.sampled_from([None, None, 1, 2, 3]),
            "node_affinity_policy": st.sampled_from([None, "Ignore", "Honor"]),
            "node_taints_policy": st.sampled_from([None, "Ignore", "Honor"]),
        }
    ),
)


@st.composite
def _spreading(draw: st.DrawFn) -> Pod:
    made = PodBuilder(draw(pods(uid="incoming")))
    made = spread(made, *draw(st.lists(_CONSTRAINTS, min_size=1, max_size=3)))
    if draw(st.booleans()):
        made = made.selects(disk="ssd")
    if draw(st.booleans()):
        made = made.tolerates("own", operator="Exists")
    return made.build()


class Compiled:
    """The rule for one class of pods, compiled before anything happens."""

    def __init__(self, pod: Pod, twin: Twin) -> None:
        rule = PodTopologySpread()
        self.pod = pod
        self.twin = twin
        self.verdicts = Verdicts()
        self.constraints: list[TopologySpreadConstraint] = pod.spec.topology_spread_constraints
        self.compiled_filter = rule.compile_filter(pod, twin.cluster, self.verdicts)
        self.compiled_score = rule.compile_score(pod, twin.cluster)

    def check(self) -> None:
        if self.compiled_filter is not None:
            self._check_filter(in_attempt(self.compiled_filter))
        if self.compiled_score is not None:
            assert self.compiled_score.prepare(ATTEMPT) is not SKIP
            self._check_scores(self.compiled_score)
        hard = [each for each in self.constraints if each.when_unsatisfiable == "DoNotSchedule"]
        assert (self.compiled_filter is None) == (not hard)
        assert (self.compiled_score is None) == (len(hard) == len(self.constraints))

    def _check_filter(self, compiled_filter: CompiledFilter) -> None:
        twin = self.twin
        rows = twin.rows()
        state = Spread(self.pod, self.constraints, twin.world)
        want = [state.judge(node) for node in twin.nodes(rows.tolist())]

        everywhere = compiled_filter.codes(twin.cluster.nodes())[rows]
        backwards = compiled_filter.codes(NodeView(twin.cluster.columns, rows[::-1]))

        assert reasons(everywhere.tolist(), self.verdicts) == want
        assert reasons(backwards.tolist(), self.verdicts) == want[::-1]
        for there, done in hypothetical_views(twin):
            want = []
            for node, changed in zip(twin.nodes(rows.tolist()), done, strict=True):
                state = Spread(self.pod, self.constraints, twin.world)
                for other, sign in changed:
                    state.count(other, node, sign)
                want.append(state.judge(node))
            assert reasons(compiled_filter.codes(there).tolist(), self.verdicts) == want

    def _check_scores(self, compiled_score: CompiledScore) -> None:
        twin = self.twin
        for rows in (twin.rows(), twin.rows()[1:], twin.rows()[::-2]):
            names = [twin.cluster.columns.names[row] for row in rows]
            raw, scores = spread_scores(
                self.pod, self.constraints, twin.world, names, every_key=True
            )

            found = compiled_score.scores(NodeView(twin.cluster.columns, rows))

            assert found.tolist() == raw
            assert compiled_score.normalise(found).tolist() == scores


@given(history=changes(), incoming=st.lists(_spreading(), min_size=1, max_size=3))
def test_follows_every_change_one_by_one(
    history: list[Callable[[Twin], None]], incoming: list[Pod]
) -> None:
    twin = Twin()
    compiled = [Compiled(pod, twin) for pod in incoming]

    for change in history:
        change(twin)
        for each in compiled:
            each.check()


@given(before=changes(), between=changes(), incoming=st.lists(_spreading(), min_size=1, max_size=3))
def test_catches_up_with_many_changes_at_once(
    before: list[Callable[[Twin], None]],
    between: list[Callable[[Twin], None]],
    incoming: list[Pod],
) -> None:
    twin = Twin()
    for change in before:
        change(twin)
    compiled = [Compiled(pod, twin) for pod in incoming]
    for each in compiled:
        each.check()

    for change in between:
        change(twin)

    for each in compiled:
        each.check()


@given(history=changes())
def test_built_in_constraints_also_score_nodes_without_a_zone(
    history: list[Callable[[Twin], None]],
) -> None:
    twin = Twin()
    pod = PodBuilder(Pod()).meta(name="p", uid="p", namespace="default", labels={"app": "x"})
    twin.cluster.workloads.write(service("web", app="x"))
    compiled_score = PodTopologySpread().compile_score(pod.build(), twin.cluster)
    assert compiled_score is not None
    built_in = [
        constraint(HOSTNAME, skew=3, soft=True, app="x"),
        constraint(ZONE, skew=5, soft=True, app="x"),
    ]

    for change in history:
        change(twin)

    rows = twin.rows()
    names = [twin.cluster.columns.names[row] for row in rows]
    raw, scores = spread_scores(pod.build(), built_in, twin.world, names, every_key=False)
    assert compiled_score.prepare(ATTEMPT) is not SKIP
    found = compiled_score.scores(NodeView(twin.cluster.columns, rows))
    assert found.tolist() == raw
    assert compiled_score.normalise(found).tolist() == scores
