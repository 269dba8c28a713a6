"""Which of the best nodes is picked."""

from collections import Counter

import numpy as np

from scheduler.core.feasibility import tie_breaking
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.resource_axis import ResourceAxis
from tests.support.builders import node


def columns_of(*names: str) -> NodeColumns:
    columns = NodeColumns(ResourceAxis())
    for name in names:
        columns.write(node(name).build())
    return columns


NAMES = [f"n{number}" for number in range(20)]


def chosen(names: list[str], uid: str) -> str:
    columns = columns_of(*names)
    return columns.names[tie_breaking.pick(np.arange(len(names)), uid, columns)]


def test_the_best_node_is_taken():
    assert tie_breaking.best(np.array([3, 5, 8]), np.array([5, 9, 7])).tolist() == [5]


def test_a_tie_is_among_the_best_only():
    columns, rows = columns_of(*NAMES), np.arange(20)
    scores = np.array([9 if number in (3, 8) else 1 for number in range(20)])

    ties = tie_breaking.best(rows, scores)
    taken = {tie_breaking.pick(ties, f"uid-{n}", columns) for n in range(50)}

    assert taken == {3, 8}


def test_the_same_pod_always_chooses_the_same_node():
    assert chosen(NAMES, "uid") == chosen(NAMES, "uid")


def test_the_order_of_the_nodes_does_not_matter():
    uids = [f"uid-{number}" for number in range(30)]

    assert [chosen(NAMES, uid) for uid in uids] == [chosen(NAMES[::-1], uid) for uid in uids]


def test_deleting_a_node_that_is_not_chosen_does_not_change_the_choice():
    taken = chosen(NAMES, "uid")
    others = [name for name in NAMES if name != taken]

    assert all(chosen([name for name in NAMES if name != gone], "uid") == taken for gone in others)


def test_pods_spread_over_equally_good_nodes():
    counts = Counter(chosen(NAMES, f"uid-{number}") for number in range(600))

    assert len(counts) == 20
    assert max(counts.values()) < 60


def test_unusual_texts_have_a_hash_too():
    assert chosen(["\ud800", "b"], "\udfff") in ("\ud800", "b")
