"""Lines and pages with unexpected content."""

import json

import pytest

from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.decoding import (
    DEEPEST,
    Identity,
    PageDecoder,
    UndecodableObject,
    WatchDecoder,
    WatchEvent,
    without_depths,
)
from scheduler.model.api.objects import Pod

WATCH, PAGE = WatchDecoder(Pod), PageDecoder(Pod, "Pod")


def line(what: str, thing: object) -> bytes:
    return json.dumps({"type": what, "object": thing}).encode()


def test_an_object_is_read_into_its_type():
    notice = WATCH.decode(line("ADDED", {"metadata": {"name": "p"}, "unheard": [1]}))

    assert isinstance(notice, WatchEvent)
    assert notice.object.metadata.name == "p"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"priority": 2**31}, "Expected `int` <= 2147483647"),
        ({"priority": "high"}, "Expected `int | null`, got `str`"),
        ({"containers": [{"ports": [{"hostPort": 10**30}]}]}, "Expected `int` <= 2147483647"),
        ({"containers": [{"resources": {"requests": {"cpu": 10**30}}}]}, "Expected `int` <= "),
        ({"tolerations": {}}, "Expected `array`, got `object`"),
    ],
    ids=["a wide number", "a text", "a wider number", "a number for a quantity", "no list"],
)
def test_an_object_that_cannot_be_read_is_known_by_name(spec, problem):
    metadata = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}

    odd = WATCH.decode(line("MODIFIED", {"metadata": metadata, "spec": spec}))

    assert isinstance(odd, UndecodableObject)
    assert (odd.type, odd.identity) == ("MODIFIED", Identity("p", "n", "u", "7"))
    assert odd.problem.startswith(problem)


@pytest.mark.parametrize(
    "thing",
    [{"metadata": {"name": 1}}, {"metadata": []}, {"metadata": None}, [], "pod", None, 10**400],
    ids=["an odd name", "odd metadata", "no metadata", "a list", "a text", "null", "a number"],
)
def test_an_object_without_a_readable_name_is_left_out(thing):
    odd = WATCH.decode(line("ADDED", thing))

    assert isinstance(odd, UndecodableObject)
    assert odd.identity == Identity()


def test_the_end_of_an_object_without_a_name_breaks_the_stream():
    with pytest.raises(Unreachable, match="the end of an object without a name: Expected `str`"):
        WATCH.decode(line("DELETED", {"metadata": {"name": 1}}))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"type":1,"object":{}}', b'{"type":"ADDED"', b"[" * 10_000, b"\xff"]
)
def test_what_is_no_event_breaks_the_stream(text):
    with pytest.raises(Unreachable, match="something other than events"):
        WATCH.decode(text)


def test_an_invalid_object_does_not_affect_the_rest_of_a_page():
    items = [{"metadata": {"name": 1}}, {"metadata": {"name": "b"}, "spec": []}, {"metadata": {}}]
    metadata = {"resourceVersion": "9", "continue": "c"}
    body = json.dumps({"kind": "PodList", "metadata": metadata, "items": items})

    page = PAGE.decode(body.encode())

    assert [each.identity.name for each in page.undecodable] == ["", "b"]
    assert (len(page.objects), page.version, page.token) == (1, "9", "c")


def test_pods_of_a_list_and_of_a_watch_have_the_containers_of_an_equal_one():
    pods = [{"metadata": {"name": n}, "spec": {"containers": [{"name": "c"}]}} for n in "abc"]
    body = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": pods[:2]}

    listed = PAGE.decode(json.dumps(body).encode()).objects
    changed = WATCH.decode(line("MODIFIED", pods[2]))

    assert isinstance(changed, WatchEvent)
    assert listed[0].spec.containers is listed[1].spec.containers
    assert listed[0].spec.containers is changed.object.spec.containers


def nested(levels: int) -> object:
    value: object = "x"
    for number in range(levels):
        value = [value, 1] if number % 2 else {"a": value, "b": '"}[{'}
    return value


def test_what_is_nested_too_deeply_is_left_out():
    kept = nested(DEEPEST)
    assert json.loads(without_depths(json.dumps(kept).encode())) == kept

    body = b'{"deep":' + b'{"a":' * 9000 + b'"]}"' + b"}" * 9000 + b',"b":[{}, {"c": "\\"}"}]}'
    cut = json.loads(without_depths(body))

    assert cut["b"] == [{}, {"c": '"}'}]
    depth = 0
    while cut["deep"] is not None:
        cut, depth = {"deep": cut["deep"]["a"]}, depth + 1
    assert depth == DEEPEST - 1
