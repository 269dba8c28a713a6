"""On random histories InterPodAffinity decides as an oracle with plain loops does."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.plugin import SKIP, CompiledFilter, CompiledScore
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from scheduler.state.views.node_view import NodeView
from tests.support.affinities import Twin, changes, hypothetical_views, pods, reasons
from tests.support.oracle_affinity import Affinity, affinity_scores
from tests.support.plugin_checks import ATTEMPT, in_attempt

_INCOMING = st.lists(pods(uid="incoming"), min_size=1, max_size=3)


class Compiled:
    """The rule for one class of pods, compiled before anything happens."""

    def __init__(self, pod: Pod, twin: Twin) -> None:
        rule = InterPodAffinity(hard_pod_affinity_weight=2)
        self.pod = pod
        self.twin = twin
        self.verdicts = Verdicts()
        self.compiled_filter = rule.compile_filter(pod, twin.cluster, self.verdicts)
        self.compiled_score = rule.compile_score(pod, twin.cluster)

    def check(self) -> None:
        assert self.compiled_filter is not None
        self._check_filter(in_attempt(self.compiled_filter))
        assert self.compiled_score is not None
        self._check_scores(self.compiled_score)

    def _check_filter(self, compiled_filter: CompiledFilter) -> None:
        twin, columns = self.twin, self.twin.cluster.columns
        rows = twin.rows()
        want = [Affinity(self.pod, twin.world).judge(node) for node in twin.nodes(rows.tolist())]

        everywhere = compiled_filter.codes(twin.cluster.nodes())[rows]
        backwards = compiled_filter.codes(NodeView(columns, rows[::-1]))

        assert reasons(everywhere.tolist(), self.verdicts) == want
        assert reasons(backwards.tolist(), self.verdicts) == want[::-1]
        for there, done in hypothetical_views(twin):
            want = []
            for node, changed in zip(twin.nodes(rows.tolist()), done, strict=True):
                state = Affinity(self.pod, twin.world)
                for other, sign in changed:
                    state.count(other, node, sign)
                want.append(state.judge(node))
            assert reasons(compiled_filter.codes(there).tolist(), self.verdicts) == want

    def _check_scores(self, compiled_score: CompiledScore) -> None:
        twin = self.twin
        rows = twin.rows()
        scores = affinity_scores(self.pod, twin.world, hard_weight=2)
        want = [scores[node.metadata.name] for node in twin.nodes(rows.tolist())]

        skipped = compiled_score.prepare(ATTEMPT) is SKIP
        raw = (
            np.zeros(len(rows))
            if skipped
            else compiled_score.scores(NodeView(twin.cluster.columns, rows))
        )

        assert raw.tolist() == want


@given(history=changes(), incoming=_INCOMING)
def test_follows_every_change_one_by_one(
    history: list[Callable[[Twin], None]], incoming: list[Pod]
) -> None:
    twin = Twin()
    compiled = [Compiled(pod, twin) for pod in incoming]

    for change in history:
        change(twin)
        for each in compiled:
            each.check()

    twin.cluster.check()


@given(before=changes(), between=changes(), incoming=_INCOMING)
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
