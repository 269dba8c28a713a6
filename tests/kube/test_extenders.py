"""Extenders are asked over real HTTP and HTTPS; whatever they do wrong is their answer."""

import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.config.settings import Extender, ExtenderTLS
from scheduler.kube.errors import ConnectionSettingsError, NotFound
from scheduler.kube.extenders import ExtenderError, Extenders
from scheduler.kube.instrumentation import Instrumentation
from scheduler.model.effects import Ask, Bind, NodeVictims, PodRef, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from tests.support.certificates import Authority
from tests.support.extender import Call, ExtenderServer

P = PodRef("default", "p", "uid-p")
VICTIM = PodRef("default", "v", "uid-v")
GONE = PodRef("default", "g", "uid-g")
FILTER = Question(0, Verb.FILTER, ("n1", "n2"))
SCORE = Question(0, Verb.PRIORITIZE, ("n1",))
NODES = {"n1": b'{"metadata":{"name":"n1"},"status":{"images":[]}}'}


class KnownPods:
    """Provides two pods, and records the requested versions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def get(self, pod: PodRef, version: str = "") -> bytes:
        self.asked.append((pod.name, version))
        if pod.uid == GONE.uid:
            raise NotFound(404, "NotFound", f"pod {pod} is gone")
        return json.dumps({"metadata": {"name": pod.name}}).encode()


class Heard(Instrumentation):
    """Remembers which extenders failed."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    def extender_failed(self, extender: str, verb: str, problem: str) -> None:
        self.failed.append((verb, problem))


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with ExtenderServer() as started:
        yield started


def extender(server: ExtenderServer, **settings: Any) -> Extender:
    verbs = {
        "filter_verb": "filter",
        "prioritize_verb": "prioritize",
        "preempt_verb": "preempt",
        "bind_verb": "bind",
        "node_cache_capable": True,
        "url_prefix": server.url,
    }
    return Extender(**{**verbs, **settings})


async def ask(
    *settings: Extender,
    questions: tuple[Question, ...] = (FILTER,),
    pods: KnownPods | None = None,
    heard: Heard | None = None,
) -> tuple[ExtenderAnswer, ...]:
    async with Extenders(settings, pods or KnownPods(), NODES, heard) as asked:
        return await asked.ask(Ask(P, 1, "7", questions))


async def bind(settings: Extender) -> None:
    async with Extenders([settings], KnownPods(), {}) as asked:
        await asked.bind(Bind(P, "n1", "us", 0))


async def test_sends_a_post_and_reads_the_answer(server):
    server.answers["filter"] = {"NodeNames": ["n2"], "FailedNodes": {"n1": "no"}}
    pods = KnownPods()

    answers = await ask(extender(server, url_prefix=f"{server.url}//"), pods=pods)

    assert answers == (Filtered(("n2",), {"n1": "no"}),)
    body = {"Pod": {"metadata": {"name": "p"}}, "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert server.calls == [Call("filter", "application/json", body)]
    assert pods.asked == [("p", "7")]


async def test_several_questions_are_asked_at_once(server):
    with ExtenderServer() as other:
        # Each waits until the other one was asked.
        server.answers["prioritize"] = lambda _: (
            other.wait_asked("prioritize"), [{"Host": "n1", "Score": 1}]
        )[1]  # fmt: skip
        other.answers["prioritize"] = lambda _: (
            server.wait_asked("prioritize"), [{"Host": "n1", "Score": 2}]
        )[1]  # fmt: skip

        answers = await ask(
            extender(server),
            extender(other),
            questions=(SCORE, Question(1, Verb.PRIORITIZE, ("n1",))),
        )

    assert answers == (Scored((("n1", 1),)), Scored((("n1", 2),)))


async def test_victims_are_looked_up_and_a_deleted_one_is_left_out(server):
    server.answers["preempt"] = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-v"}]}}}
    question = Question(0, Verb.PREEMPT, victims=(NodeVictims("n1", (VICTIM, GONE), 0),))

    answers = await ask(extender(server, node_cache_capable=False), questions=(question,))

    assert answers == (ExtenderVictims((VictimUids("n1", ("uid-v",)),)),)
    (body,) = server.asked("preempt")
    assert body["NodeNameToVictims"]["n1"]["Pods"] == [{"metadata": {"name": "v"}}]


async def test_a_deleted_pod_is_an_error(server):
    async with Extenders([extender(server)], KnownPods(), {}) as asked:
        with pytest.raises(NotFound):
            await asked.ask(Ask(GONE, 1, "7", (FILTER,)))

    assert server.calls == []


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(500, "failed filter with extender at URL {url}/filter, code 500", id="500"),
        pytest.param(204, "failed filter with extender at URL {url}/filter, code 204", id="204"),
        pytest.param(b"<html>", "cannot parse the extender response: ", id="no JSON"),
        pytest.param({"Error": "busy"}, "busy", id="an error of its own"),
    ],
)
async def test_a_failure_is_returned_and_reported(server, answer, want):
    server.answers["filter"] = answer
    heard = Heard()

    (said,) = await ask(extender(server), heard=heard)

    assert isinstance(said, NoAnswer)
    assert said.error.startswith(want.format(url=server.url))
    assert heard.failed == [("filter", said.error)]


async def test_no_extender_listens():
    with ExtenderServer() as server:
        settings = extender(server)

    (said,) = await ask(settings)

    assert isinstance(said, NoAnswer)
    assert said.error.startswith(f'Post "{settings.url_prefix}/filter": ')


async def test_an_answer_that_takes_too_long(server):
    server.hold()

    (said,) = await ask(extender(server, http_timeout_seconds=0.05))

    assert said == NoAnswer(f'Post "{server.url}/filter": no response within 0.05 s')


async def test_binds(server):
    server.answers["bind"] = {}

    await bind(extender(server))

    assert server.asked("bind") == [
        {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
    ]


@pytest.mark.parametrize(
    ("answer", "want"), [(500, "code 500"), ({"Error": "taken"}, "^taken$"), (b"", "cannot parse")]
)
async def test_a_binding_that_fails(server, answer, want):
    server.answers["bind"] = answer

    with pytest.raises(ExtenderError, match=want):
        await bind(extender(server))


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(authority: Authority) -> Iterator[ExtenderServer]:
    """Accepts TLS connections, and only with a client certificate."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    tls.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    tls.verify_mode = ssl.CERT_REQUIRED
    with ExtenderServer(tls) as started:
        started.answers["filter"] = {"NodeNames": ["n1"]}
        yield started


def certificates(authority: Authority, *, inline: bool) -> dict[str, Any]:
    paths = {
        "ca": authority.certificate,
        "cert": authority.client_certificate,
        "key": authority.client_key,
    }
    if inline:
        return {f"{name}_data": path.read_bytes() for name, path in paths.items()}
    return {f"{name}_file": str(path) for name, path in paths.items()}


@pytest.mark.parametrize("inline", [False, True], ids=["files", "inline"])
async def test_connects_over_tls_with_a_client_certificate(secure, authority, inline):
    tls = ExtenderTLS(server_name="kubernetes", **certificates(authority, inline=inline))

    assert await ask(extender(secure, enable_https=True, tls=tls)) == (Filtered(("n1",)),)


@pytest.mark.parametrize(
    ("https", "changes", "trusted"),
    [
        pytest.param(True, {"ca_file": ""}, True, id="HTTPS without a CA"),
        pytest.param(False, {"ca_file": "", "insecure": True}, True, id="insecure"),
        pytest.param(False, {"ca_file": ""}, False, id="the system's CAs"),
        pytest.param(False, {"server_name": "kubernetes"}, True, id="a name in the certificate"),
        pytest.param(False, {"server_name": "elsewhere"}, False, id="a name that is not in it"),
    ],
)
async def test_trusted_authorities(secure, authority, https, changes, trusted):
    tls = ExtenderTLS(**{**certificates(authority, inline=False), **changes})

    (said,) = await ask(extender(secure, enable_https=https, tls=tls))

    assert isinstance(said, Filtered) is trusted
    if isinstance(said, NoAnswer):
        assert "certificate verify failed" in said.error.lower()


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({"ca_file": "/nowhere"}, "No such file", id="no CA file"),
        pytest.param({"ca_data": b"\xff"}, "ascii", id="a CA that is no PEM"),
        pytest.param({"cert_file": "/nowhere"}, "needed together", id="no key"),
        pytest.param(
            {"cert_data": b"x", "key_data": b"y"}, "extenders.0..tlsConfig", id="no certificate"
        ),
    ],
)
def test_certificates_that_cannot_be_used(settings, want):
    with pytest.raises(ConnectionSettingsError, match=want):
        Extenders([Extender(tls=ExtenderTLS(**settings))], KnownPods(), {})


async def test_sends_whole_nodes(server):
    server.answers["filter"] = lambda body: {"Nodes": body["Nodes"]}

    answers = await ask(extender(server, node_cache_capable=False))

    assert answers == (Filtered(("n1",)),)
    assert server.asked("filter")[0]["Nodes"]["items"] == [json.loads(NODES["n1"])]
