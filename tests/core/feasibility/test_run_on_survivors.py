"""Filters that run one after the other."""

import numpy as np

from scheduler.core.feasibility.filters import run_on_survivors
from scheduler.framework.plugin import CompiledFilter
from tests.support.builders import node
from tests.support.cluster import Cluster


class Keeping(CompiledFilter):
    """A filter that keeps what it has returned."""

    def __init__(self, codes):
        self.kept = np.array(codes, dtype=np.uint16)

    def codes(self, nodes):
        return self.kept[: len(nodes)] if len(nodes) == len(self.kept) else self.kept[nodes.rows]


def test_verdicts_that_a_filter_keeps_are_not_written_to():
    cluster = Cluster(node("n1"), node("n2"), node("n3")).machine.cluster
    first, second = Keeping([0, 5, 0]), Keeping([0, 0, 7])
    nodes = cluster.nodes()
    run_on_survivors(nodes, [first, second], np.zeros(len(nodes), dtype=np.uint16))
    assert first.kept.tolist()[:3] == [0, 5, 0]
