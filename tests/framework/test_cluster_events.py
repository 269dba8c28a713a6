"""The labels of events."""

import pytest

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource


@pytest.mark.parametrize(
    ("resource", "action", "label"),
    [
        (Resource.NODE, Action.ADD, "NodeAdd"),
        (Resource.NODE, Action.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint"),
        (Resource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete"),
        (Resource.UNSCHEDULABLE_POD, Action.UPDATE_OTHER, "UnschedulablePodUpdate"),
    ],
)
def test_an_event_has_the_label_that_metrics_carry(resource, action, label):
    assert ClusterEvent(resource, action).label == label


def test_every_single_action_has_a_label():
    single = [action for action in Action if action.bit_count() == 1]

    labels = {ClusterEvent(Resource.NODE, action).label for action in single}

    assert len(labels) == len(single) == 15
