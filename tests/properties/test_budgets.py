"""Which pods budgets protect, and which evictions violate them, compared with plain code."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.preemption.evaluate.pdb_violations import pdb_violations
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int
from tests.support.builders import PdbBuilder, node, pdb, pod, requirement

APPS = ["a", "b", "c"]
NAMESPACES = ["default", "team"]
NAMES = ["b0", "b1", "b2", "b3"]
KEYS = [f"{namespace}/{name}" for namespace in NAMESPACES for name in NAMES]
PODS = 8


def _budgets() -> st.SearchStrategy[PdbBuilder]:
    selectors = st.sampled_from(
        [
            *({"app": app} for app in APPS),
            requirement("app", "Exists"),
            requirement("app", "NotIn", "a"),
            {},
            None,
        ]
    )

    def made(name, namespace, selector, allowed, disrupted):
        found = pdb(name).namespace(namespace).allows(allowed).disrupted(*disrupted)
        if selector is None:
            return found
        return found.selects(**selector) if isinstance(selector, dict) else found.selects(selector)

    pods = st.lists(st.sampled_from([f"p{number}" for number in range(PODS)]), max_size=2)
    return st.builds(
        made,
        st.sampled_from(NAMES),
        st.sampled_from(NAMESPACES),
        selectors,
        st.integers(-1, 3),
        pods,
    )


happenings = st.one_of(
    st.tuples(st.just("budget"), _budgets()),
    st.tuples(
        st.just("no budget"), st.sampled_from([f"{n}/{b}" for n in NAMESPACES for b in NAMES])
    ),
    st.tuples(
        st.just("pod"),
        st.builds(
            lambda number, namespace, labels: (
                pod(f"p{number}").namespace(namespace).on(f"n{number % 3}").meta(labels=labels)
            ),
            st.integers(0, PODS - 1),
            st.sampled_from(NAMESPACES),
            st.sampled_from([*({"app": app} for app in APPS), {"x": "y"}, {}]),
        ),
    ),
    st.tuples(st.just("no pod"), st.integers(0, PODS - 1)),
)


def _play(history: list[tuple[str, object]]) -> Cluster:
    cluster = Cluster()
    for number in range(3):
        cluster.write_node(node(f"n{number}").build())
    cluster.pdbs._crowded = 4
    for kind, what in history:
        if kind == "budget":
            cluster.write_pdb(what.build())
        elif kind == "no budget":
            cluster.erase_pdb(what)
        elif kind == "pod":
            built = what.build()
            cluster.place(built, built.spec.node_name)
        else:
            for namespace in NAMESPACES:
                cluster.remove(f"uid:{namespace}/p{what}")
    cluster.check()
    return cluster


def _slow(cluster: Cluster, slots: Int) -> list[list[bool]]:
    """Charge one pod after the other, as kube-scheduler does."""
    found = [[False] * slots.shape[1] for _ in range(slots.shape[0])]
    for column in range(slots.shape[1]):
        left: dict[str, int] = {}
        for rank, slot in enumerate(slots[:, column].tolist()):
            if slot < 0:
                continue
            each_pod = cluster.pods.pod(slot)
            for each in cluster.pdbs:
                key = each.metadata.key
                if each.metadata.namespace != each_pod.metadata.namespace:
                    continue
                if not cluster.pdbs.protects(key, each_pod.metadata.labels):
                    continue
                if each_pod.metadata.name in each.status.disrupted_pods:
                    continue
                left[key] = left.get(key, each.status.disruptions_allowed) - 1
                found[rank][column] |= left[key] < 0
    return found


@given(st.lists(happenings, max_size=40))
def test_each_pod_is_protected_by_the_budgets_that_select_it(history):
    cluster = _play(history)

    for slot, each_pod in cluster.pods.occupied():
        keys = cluster.pdbs.sets.values[int(cluster.pods.protection(np.array([slot]))[0])]
        assert cluster.pdbs.sets.values[cluster.pdbs.code(each_pod)] == keys
        assert list(keys) == sorted(
            key
            for key in (each.metadata.key for each in cluster.pdbs)
            if key.startswith(f"{each_pod.metadata.namespace}/")
            and cluster.pdbs.protects(key, each_pod.metadata.labels)
        )


@given(st.lists(happenings, min_size=10, max_size=40))
def test_budgets_are_charged_as_one_pod_after_the_other_would(history):
    cluster = _play(history)
    on_rows = [list(cluster.pods.on_row(row)) for row in range(3)]
    deepest = max(map(len, on_rows))
    slots = np.array([each + [-1] * (deepest - len(each)) for each in on_rows]).T.reshape(-1, 3)

    assert pdb_violations(slots.astype(np.int64), cluster).tolist() == _slow(cluster, slots)


@given(st.lists(happenings, max_size=30), _budgets())
def test_rows_are_evaluated_again_where_a_budget_changes_what_is_charged(history, changed):
    cluster = _play(history)
    rows = np.arange(3)
    slots = np.array([[(*cluster.pods.on_row(row), -1)[0] for row in rows]])
    before, position = pdb_violations(slots, cluster), cluster.pods.changes.position

    cluster.write_pdb(changed.build())

    differs = (pdb_violations(slots, cluster) != before)[0]
    noted = cluster.pods.changes.since(position, 100)
    assert noted is not None
    assert set(np.flatnonzero(differs).tolist()) <= set(noted.tolist())
