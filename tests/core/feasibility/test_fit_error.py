"""The message that says why a pod fits on no node."""

import numpy as np

from scheduler.core.feasibility import fit_error
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts


def test_reasons_are_sorted_as_text_so_ten_comes_before_two():
    text = fit_error.fit_error(12, [("Insufficient cpu", 2), ("untolerated taint", 10)])

    assert text == "0/12 nodes are available: 10 untolerated taint, 2 Insufficient cpu."


def test_without_reasons_there_is_no_list():
    assert fit_error.fit_error(3, []) == "0/3 nodes are available:"


def test_a_prefilter_reason_applies_to_all_nodes():
    text = fit_error.fit_error(
        3, [("Insufficient cpu", 2)], prefilter="pod affinity terms conflict"
    )

    assert text == "0/3 nodes are available: pod affinity terms conflict."


def test_the_message_of_the_post_filters_comes_last_and_without_a_dot():
    text = fit_error.fit_error(1, [("Insufficient cpu", 1)], post_filter="preemption: no")

    assert text == "0/1 nodes are available: 1 Insufficient cpu. preemption: no"


def test_a_node_counts_once_for_each_of_its_reasons():
    verdicts = Verdicts()
    both = verdicts.code(Verdict("Fit", ("Too many pods", "Insufficient cpu"), resolvable=True))
    cpu = verdicts.code(Verdict("Fit", ("Insufficient cpu",), resolvable=True))
    codes = np.array([both, cpu, 0, NO_NODE, both], dtype=np.uint16)

    assert fit_error.count_reasons(codes, verdicts) == {"Too many pods": 2, "Insufficient cpu": 3}


def test_a_cluster_that_fits_has_no_reasons():
    assert fit_error.count_reasons(np.zeros(3, dtype=np.uint16), Verdicts()) == {}
