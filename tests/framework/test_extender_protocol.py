"""Requests to extenders and their responses; requests byte for byte."""

import json
from typing import Any

import pytest

from scheduler.config.settings import Extender, ManagedResource
from scheduler.framework import extender_protocol
from scheduler.framework.extender_protocol import ProtocolError
from scheduler.model.effects import Bind, NodeVictims, PodRef, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from tests.support.builders import container, pod

POD = b'{"metadata":{"name":"p"}}'
NODES = {"n1": b'{"metadata":{"name":"n1"}}', "n2": b'{"metadata":{"name":"n2"}}'}
VICTIM = PodRef("default", "v", "uid-v")
GONE = PodRef("default", "g", "uid-g")
KNOWS = Extender(url_prefix="http://e", node_cache_capable=True)
KNOWS_NOT = Extender(url_prefix="http://e")
FILTER = Question(0, Verb.FILTER, ("n1", "n2"))
SCORE = Question(0, Verb.PRIORITIZE, ("n1", "n2"))
PREEMPT = Question(0, Verb.PREEMPT, victims=(NodeVictims("n1", (VICTIM, GONE), 1),))


def told(body: bytes) -> Any:
    return json.loads(body)


# Interest


@pytest.mark.parametrize(
    ("wants", "want"),
    [
        pytest.param(container(), False, id="no resource"),
        pytest.param(container(cpu="1"), False, id="another resource"),
        pytest.param(container(**{"example.com/gpu": "0"}), True, id="a request, even of none"),
    ],
)
def test_an_extender_is_interested_in_what_it_manages(wants: Any, want: bool):
    extender = Extender(managed_resources=(ManagedResource(name="example.com/gpu"),))

    assert extender_protocol.interested(extender, pod("p").containers(wants).build()) is want
    assert extender_protocol.interested(extender, pod("p").init(wants).build()) is want


def test_an_extender_that_manages_nothing_is_interested_in_every_pod():
    assert extender_protocol.interested(Extender(), pod("p").build())


def test_the_first_interested_extender_that_binds_is_the_binder():
    gpu = (ManagedResource(name="example.com/gpu"),)
    configured = (Extender(), Extender(bind_verb="b", managed_resources=gpu))

    assert extender_protocol.binder(configured, pod("p").build()) is None
    assert (
        extender_protocol.binder(configured, pod("p").requests({"example.com/gpu": "1"}).build())
        == 1
    )


@pytest.mark.parametrize(
    ("extender", "want"),
    [
        pytest.param(Extender(filter_verb="f"), True, id="filters"),
        pytest.param(Extender(prioritize_verb="p"), True, id="scores"),
        pytest.param(Extender(bind_verb="b", preempt_verb="p"), False, id="asks not about nodes"),
        pytest.param(Extender(filter_verb="f", node_cache_capable=True), False, id="knows nodes"),
    ],
)
def test_whole_nodes_are_for_extenders_that_do_not_know_them(extender: Extender, want: bool):
    assert extender_protocol.whole_nodes(extender) is want


# Requests


def test_an_extender_with_a_node_cache_gets_node_names():
    body = extender_protocol.about_nodes(KNOWS, POD, ["n1", "n2"], {})

    assert told(body) == {
        "Pod": {"metadata": {"name": "p"}},
        "Nodes": None,
        "NodeNames": ["n1", "n2"],
    }


def test_an_extender_that_does_not_know_the_nodes_is_sent_them():
    body = extender_protocol.about_nodes(KNOWS_NOT, POD, ["n2", "gone", "n1"], NODES)

    assert told(body) == {
        "Pod": {"metadata": {"name": "p"}},
        "Nodes": {
            "metadata": {},
            "items": [{"metadata": {"name": "n2"}}, {"metadata": {"name": "n1"}}],
        },
        "NodeNames": None,
    }


def test_an_extender_with_a_node_cache_gets_the_uids_of_victims():
    assert told(extender_protocol.about_victims(KNOWS, POD, PREEMPT, {})) == {
        "Pod": {"metadata": {"name": "p"}},
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "uid-v"}, {"UID": "uid-g"}], "NumPDBViolations": 1}
        },
    }


def test_an_extender_that_does_not_know_the_nodes_is_sent_the_victims():
    body = extender_protocol.about_victims(KNOWS_NOT, POD, PREEMPT, {"uid-v": b'{"kind":"Pod"}'})

    assert told(body) == {
        "Pod": {"metadata": {"name": "p"}},
        "NodeNameToVictims": {"n1": {"Pods": [{"kind": "Pod"}], "NumPDBViolations": 1}},
        "NodeNameToMetaVictims": None,
    }


def test_a_binding_names_pod_and_node():
    body = extender_protocol.binding(Bind(PodRef("ns", "p", "uid-p"), "n1", "us", 0))

    assert told(body) == {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"}


# Answers


@pytest.mark.parametrize(
    ("extender", "question", "body", "want"),
    [
        pytest.param(
            KNOWS,
            FILTER,
            b'{"NodeNames":["n2"],"FailedNodes":{"n1":"no"},"FailedAndUnresolvableNodes":null}',
            Filtered(("n2",), {"n1": "no"}),
            id="names",
        ),
        pytest.param(
            KNOWS, FILTER, b'{"nodenames":["n2"],"ERROR":""}', Filtered(("n2",)), id="any case"
        ),
        pytest.param(
            KNOWS_NOT,
            FILTER,
            b'{"Nodes":{"items":[{"metadata":{"name":"n1"},"spec":{}}]},'
            b'"failedAndUnresolvableNodes":{"n2":"broken"}}',
            Filtered(("n1",), {}, {"n2": "broken"}),
            id="nodes",
        ),
        pytest.param(
            KNOWS,
            FILTER,
            b'{"NodeNames":null,"Nodes":{"items":[{"metadata":{"name":"n1"}}]}}',
            Filtered(("n1",)),
            id="nodes although names were asked for",
        ),
        pytest.param(
            KNOWS_NOT, FILTER, b'{"NodeNames":["n1"]}', Filtered(()), id="names unasked for"
        ),
        pytest.param(KNOWS, FILTER, b"{}", Filtered(()), id="no node"),
        pytest.param(KNOWS, FILTER, b"null", Filtered(()), id="null"),
        pytest.param(
            KNOWS, FILTER, b'{"NodeNames":["n1"],"Error":"busy"}', NoAnswer("busy"), id="an error"
        ),
        pytest.param(
            KNOWS,
            FILTER,
            b'{"NodeNames":["n1","n9"]}',
            NoAnswer(
                'extender "http://e" claims a filtered node "n9" which is not found in the input '
                "node list"
            ),
            id="a node that was not asked about",
        ),
        pytest.param(
            KNOWS,
            SCORE,
            b'[{"Host":"n1","Score":7},{"host":"n2"},{"Host":"n1","Score":-1}]',
            Scored((("n1", 7), ("n2", 0), ("n1", -1))),
            id="scores",
        ),
        pytest.param(KNOWS, SCORE, b"null", Scored(()), id="no scores"),
        pytest.param(
            KNOWS_NOT,
            PREEMPT,
            b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"uid":"b"}],'
            b'"NumPDBViolations":2},"n2":{"Pods":null}}}',
            ExtenderVictims((VictimUids("n1", ("a", "b"), 2), VictimUids("n2", ()))),
            id="victims",
        ),
        pytest.param(KNOWS, PREEMPT, b"{}", ExtenderVictims(()), id="no victims"),
    ],
)
def test_an_answer_is_read(
    extender: Extender, question: Question, body: bytes, want: ExtenderAnswer
):
    assert extender_protocol.read(extender, question, body) == want


@pytest.mark.parametrize(
    ("question", "body"),
    [
        pytest.param(FILTER, b"", id="nothing"),
        pytest.param(FILTER, b"<html>", id="no JSON"),
        pytest.param(FILTER, b"[]", id="another form"),
        pytest.param(FILTER, b'{"NodeNames":[1]}', id="names that are numbers"),
        pytest.param(FILTER, b'{"FailedNodes":{"n1":"\xff"}}', id="no UTF-8"),
        pytest.param(SCORE, b'[{"Host":"n1","Score":"7"}]', id="a score that is text"),
        pytest.param(SCORE, b'[{"Score":9223372036854775808}]', id="a score out of range"),
        pytest.param(PREEMPT, b'{"NodeNameToMetaVictims":[]}', id="victims of no node"),
    ],
)
def test_an_answer_without_form_is_an_error(question: Question, body: bytes):
    with pytest.raises(ProtocolError, match="cannot parse the extender response"):
        extender_protocol.read(KNOWS, question, body)


@pytest.mark.parametrize(
    ("body", "want"), [(b"{}", ""), (b'{"Error":""}', ""), (b'{"error":"taken"}', "taken")]
)
def test_the_answer_to_a_binding_is_an_error_or_none(body: bytes, want: str):
    assert extender_protocol.read_binding(body) == want


def test_the_answer_to_a_binding_without_form_is_an_error():
    with pytest.raises(ProtocolError, match="cannot parse the extender response"):
        extender_protocol.read_binding(b"OK")
