"""Which pods budgets protect: what is kept by pod is what selects it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.cluster import Cluster
from tests.support.builders import PdbBuilder, node, pdb, pod, requirement

APPS = ["a", "b", "c"]
NAMESPACES = ["default", "team"]
NAMES = ["b0", "b1", "b2", "b3"]
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
