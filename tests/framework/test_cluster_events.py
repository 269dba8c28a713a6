"""Which registrations match which events."""

import pytest

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource

HEARD = [
    ("the same", ClusterEvent(Resource.NODE, Action.ADD), Resource.NODE, Action.ADD, True),
    (
        "one of several actions",
        ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL),
        Resource.NODE,
        Action.ADD | Action.UPDATE_NODE_LABEL,
        True,
    ),
    (
        "another action",
        ClusterEvent(Resource.NODE, Action.ADD),
        Resource.NODE,
        Action.DELETE,
        False,
    ),
    ("another resource", ClusterEvent(Resource.NODE, Action.ADD), Resource.POD, Action.ADD, False),
    (
        "Pod hears of assigned pods",
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        Resource.POD,
        Action.DELETE,
        True,
    ),
    (
        "Pod hears of waiting pods",
        ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL),
        Resource.POD,
        Action.UPDATE_POD_LABEL,
        True,
    ),
    (
        "assigned pods only",
        ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL),
        Resource.ASSIGNED_POD,
        Action.UPDATE_POD_LABEL,
        False,
    ),
    ("everything", ClusterEvent(Resource.NODE, Action.ADD), Resource.ANY, Action.ALL, True),
    (
        "a general update, for a registration of a special one",
        ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_OTHER),
        Resource.POD,
        Action.UPDATE_POD_LABEL,
        False,
    ),
    (
        "a general update, for a registration of every update",
        ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_OTHER),
        Resource.POD,
        Action.UPDATE,
        True,
    ),
    (
        "every update but no addition",
        ClusterEvent(Resource.NODE, Action.ADD),
        Resource.NODE,
        Action.UPDATE,
        False,
    ),
]


@pytest.mark.parametrize(
    ("event", "resource", "action", "want"), [pytest.param(*row[1:], id=row[0]) for row in HEARD]
)
def test_a_registration_matches_an_event(event, resource, action, want):
    assert event.matched_by(resource, action) is want


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
