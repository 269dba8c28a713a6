"""What an answer tells of pods that the caller may not see."""

from typing import Any

import msgspec

from scheduler.model.rest.what_if import WhatIfAnswer
from scheduler.sim.hiding import hide, namespaces
from tests.sim.test_what_if import asked, new, replica, state
from tests.support.builders import node, pod


def theirs(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["namespace"] = "secret"
    return document


def seen(answer: WhatIfAnswer) -> WhatIfAnswer:
    """Return an answer as it is for a caller who sees only the namespace `default`."""
    return hide(answer, lambda name: name == "default")


def test_details_of_hidden_namespaces_are_taken_away_and_counted():
    around = state(
        node("n1").cpu("1"),
        replica("web-1-a", "n1").namespace("secret"),
        pod("waits").namespace("secret").cpu("7"),
    )

    answer = asked(around, new("x", priority=9), theirs(new("y", "5")))
    hidden = seen(answer)

    assert namespaces(answer) == {"default", "secret"}
    assert hide(answer, lambda _: True) is answer
    text = str(hidden)
    for secret in ("secret", "web-1", "waits"):
        assert secret not in text
    own, other = hidden.items
    assert (own.pod.name, own.hidden_victims, own.victims) == ("x", 1, ())
    assert (other.pod.hidden, other.message, other.verdicts) == (True, "", ())
    assert hidden.displaced[0].replacement.message == ""


def test_a_victim_is_either_named_or_counted():
    around = state(
        node("n1").cpu("2"),
        replica("web-1-a", "n1").namespace("secret"),
        replica("web-1-b", "n1"),
    )

    (item,) = seen(asked(around, new("x", "2", priority=9))).items

    assert [victim.pod.name for victim in item.victims] == ["web-1-b"]
    assert item.hidden_victims == 1


def test_hidden_pods_tell_their_priority_and_node_and_not_what_they_request():
    tenant = {"cpu": "1", "tenant.example/gpu": "1"}
    around = state(
        node("n1").has(cpu="2", **{"tenant.example/gpu": "2"}),
        replica("web-1-a", "n1").namespace("secret").requests(tenant).priority(3),
        pod("waits").namespace("secret").requests(tenant).priority(5),
    )
    mine = new("x", "2", priority=9)

    answer = asked(around, mine)
    text = msgspec.json.encode(seen(answer)).decode()

    assert b"tenant.example" in msgspec.json.encode(answer)
    assert "tenant.example" not in text
    (displaced,) = seen(answer).displaced
    assert (displaced.pod.hidden, displaced.pod.priority, displaced.from_node) == (True, 3, "n1")
    assert displaced.pod.requests == {}
    (other,) = seen(answer).others
    assert (other.pod.priority, other.pod.requests, other.decision) == (5, {}, "Unschedulable")
