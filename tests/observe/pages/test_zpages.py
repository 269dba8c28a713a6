"""`/flagz` and `/statusz`, by what clients accept."""

import json
from typing import Any

import pytest

from scheduler.observe.pages.routes import ZPage
from scheduler.observe.pages.zpages import rendered

FIELDS = {"startTime": "2026-01-01T00:00:00Z", "uptimeSeconds": 70_000, "paths": ["/a", "/b"]}
PAGE = ZPage("Statusz", "it", "\nit statusz\n", FIELDS)
TYPE = "g=config.k8s.io;as=Statusz"
BETA, ALPHA = f"{TYPE};v=v1beta1", f"{TYPE};v=v1alpha1"


def want(version: str) -> dict[str, Any]:
    return {
        "kind": "Statusz",
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": "it"},
        **FIELDS,
    }


@pytest.mark.parametrize(
    "accept",
    [
        "", "  ", "text/plain", "*/*", "text/*", "*", "text/plain;q=0.5",
        "text/plain; charset=utf-8",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        f"application/json;{TYPE};v=foo,*/*",
        "application/json,text/plain",
        "application/json;v=v1beta1,text/plain",
        f"application/json;{BETA};q=0,text/plain",
    ],
)  # fmt: skip
def test_text_is_for_people(accept):
    told = rendered(PAGE, accept)

    assert (told.code, told.content_type, told.body) == (200, "text/plain", b"\nit statusz\n")
    assert told.headers == {}


@pytest.mark.parametrize(
    "accept",
    [
        "application/xml",
        "application/json",
        f"application/yaml;{BETA}",
        f"application/cbor;{BETA}",
        "application/*",
        "application/json;v=v1beta1;g=config.k8s.io",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        "application/json;v=v1beta1;g=other;as=Statusz",
        f"application/json;{TYPE};v=v1",
        f"application/json;{BETA};stream=watch",
        f"application/json;{BETA};sv=v1",
        f"text/plain;{BETA}",
        f"application/vnd.kubernetes.protobuf;{BETA}",
        f"application/json;{BETA};q=0",
        f"application/json;{BETA};q=much",
        "nonsense", "/", "a/b/c", ",", ";;;", "application/json;=;==",
    ],
)  # fmt: skip
def test_other_types_are_not_acceptable(accept):
    told = rendered(PAGE, accept)

    assert (told.code, told.content_type) == (406, "application/json")
    assert json.loads(told.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted: application/json, text/plain",
        "reason": "NotAcceptable",
        "code": 406,
    }


@pytest.mark.parametrize(
    "accept",
    [
        f"application/json;{BETA}",
        f"application/json; v=v1beta1; {TYPE}",
        f"application/*;{BETA}",
        f"*/*;{BETA}",
        f"text/plain;q=0.1,application/json;{BETA}",
        f"application/json;{BETA},application/json;{ALPHA}",
        f"*/*,application/json;{BETA}",
    ],
)
def test_an_object_is_for_programs_that_name_it(accept):
    told = rendered(PAGE, accept)

    assert (told.code, told.content_type, told.headers) == (200, "application/json", {})
    assert json.loads(told.body) == want("v1beta1")


def test_the_old_version_is_returned_with_a_warning():
    told = rendered(PAGE, f"application/json;{ALPHA},application/json;{BETA}")

    assert json.loads(told.body) == want("v1alpha1")
    assert told.headers == {
        "Warning": '299 - "This version of the statusz endpoint is deprecated. '
        'Please use a newer version."'
    }


@pytest.mark.parametrize(
    ("agent", "pretty", "more", "indented"),
    [
        ("curl/8.1", "", "", True),
        ("Prometheus/3", "", "", False),
        ("curl/8.1", "false", "", False),
        ("Prometheus/3", "true", "", True),
        ("Prometheus/3", "", ";pretty=1", True),
    ],
)
def test_json_is_indented_for_people(agent, pretty, more, indented):
    told = rendered(PAGE, f"application/json;{BETA}{more}", agent, pretty)

    assert (b"\n  " in told.body) is indented
    assert json.loads(told.body) == want("v1beta1")
