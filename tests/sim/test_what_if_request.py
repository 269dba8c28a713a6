"""The body of a what-if request, which anybody may have written."""

import json

import pytest

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.sim import what_if_request
from scheduler.sim.manifests import ManifestError
from scheduler.sim.what_if_request import JSON, MAX_BYTES, YAML, TooLargeError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}


def read(body: object, content_type: str = JSON) -> WhatIfRequest:
    text = body if isinstance(body, str) else json.dumps(body)
    return what_if_request.read(text.encode(), content_type)


def test_a_body_is_a_request_or_objects():
    assert read({"objects": [POD], "drain": ["n1"]}) == WhatIfRequest(objects=(POD,), drain=("n1",))
    assert read(POD) == WhatIfRequest(objects=(POD,))
    assert read([POD, POD]) == WhatIfRequest(objects=(POD, POD))
    assert read("kind: A\n---\nkind: B\n---\n", YAML).objects == ({"kind": "A"}, {"kind": "B"})
    assert read("drain: [n1]", YAML) == WhatIfRequest(drain=("n1",))
    assert read("", YAML) == WhatIfRequest()


@pytest.mark.parametrize(
    ("body", "content_type", "problem"),
    [
        ("{", JSON, "Input data was truncated"),
        ("kind: [", YAML, "line 2: "),
        ("a: b: c", YAML, "line 1: "),
        ("3", JSON, "objects[0]: a number is not a Kubernetes object"),
        ('{"objects": 3}', JSON, "Expected `array`"),
        ('{"object": []}', JSON, "neither a Kubernetes object (no kind) nor a request: 'object'"),
        ("[" * 100_000, JSON, ""),
        ("[" * 100_000, YAML, "nested too deeply"),
        ("a: &a [*a]", YAML, "contains itself"),
        ("x: !!python/object/apply:os.system [ls]", YAML, "line 1: "),
        ("x: 0" + "9" * 5000, YAML, ""),
        ("x: 1" + ":59" * 1000, YAML, "line 1: a number is too long"),
        ("x: 2026-99-99", YAML, ""),
        ("? [a]\n: b", YAML, ""),
    ],
)
def test_a_malformed_body_is_one_clear_line(body, content_type, problem):
    with pytest.raises(ManifestError) as refused:
        read(body, content_type)

    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_text_that_is_not_utf_8_is_refused():
    with pytest.raises(ManifestError, match="not UTF-8"):
        what_if_request.read(b"\xff\xfe", YAML)


def test_a_short_text_cannot_stand_for_a_large_one():
    lists = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    merges = ["m0: &m0 {a: b}"]
    for level in range(1, 9):
        lists.append(f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]")
        merges.append(f"m{level}: &m{level} {{<<: [{','.join([f'*m{level - 1}'] * 10)}]}}")

    for text in ("\n".join(lists), "\n".join(merges)):
        with pytest.raises(TooLargeError, match="more than 1000000 values"):
            read(text, YAML)


def test_a_body_of_ten_megabytes_is_refused_unread():
    with pytest.raises(TooLargeError, match="larger than 3 MiB"):
        what_if_request.read(b"[" * (10 << 20), JSON)
    assert MAX_BYTES == 3 << 20
