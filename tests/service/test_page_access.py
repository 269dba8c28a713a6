"""Which callers may read which page."""

import pytest

from scheduler.config import load
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Forbidden, Unreachable
from scheduler.kube.token_review import AuthenticatedUser
from scheduler.observe.api.requests import StatusError
from scheduler.observe.server.access import (
    ALLOWED,
    UNAUTHENTICATED,
    AccessVerdict,
    Caller,
    ClientIdentity,
)
from scheduler.observe.server.rates import Rate
from scheduler.service import page_access
from scheduler.service.options import ProcessOptions
from scheduler.service.page_access import OpenPaths, PageAuthorizer, page_authorizer

HEALTH = ("/healthz", "/readyz", "/livez")


class Reviews:
    """A reviewer with one user, Ada, that may read metrics."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.asked: list[str] = []
        #: Where Ada may get pods, and where that was asked; empty for all namespaces.
        self.readable: set[str] = set()
        self.known: list[str] = []

    def needs_review(self, token: str) -> bool:
        return token != "good"

    def is_cached(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        return path == "/metrics"

    async def user(self, token: str) -> AuthenticatedUser | None:
        self.asked.append(token)
        if self.problem is not None:
            raise self.problem
        return AuthenticatedUser("ada") if token == "good" else None

    async def allows(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        return (user.username, verb, path) == ("ada", "get", "/metrics")

    def knows_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        return namespace in self.known

    async def may_get_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        if self.problem is not None:
            raise self.problem
        self.known.append(namespace)
        return namespace in self.readable


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def judge(reviews: Reviews, problems: list[str]) -> PageAuthorizer:
    return PageAuthorizer(OpenPaths(HEALTH), reviews, problems.append)


def caller(path: str = "/metrics", authorization: str | None = None, peer: str = "10.0.0.7"):
    headers = {} if authorization is None else {"Authorization": authorization}
    return Caller("get", path, headers, peer)


@pytest.mark.parametrize("header", ["bearer good", "  BEARER good  ", "Bearer good more"])
async def test_the_header_is_read_as_an_api_server_reads_it(judge, header):
    assert await judge(caller(authorization=header)) == ALLOWED


async def test_a_user_without_the_right_gets_the_missing_right(judge):
    judgement = await judge(caller("/configz", "Bearer good"))

    assert judgement.verdict is AccessVerdict.FORBIDDEN
    assert judgement.message == 'forbidden: User "ada" cannot get path "/configz"'


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer  good", "Basic good", "good", "Bearer gööd"]
)
async def test_a_caller_without_a_token_is_refused_without_a_review(judge, reviews, header):
    assert await judge(caller(authorization=header)) == UNAUTHENTICATED
    assert reviews.asked == []


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
async def test_where_tokens_are_asked_for_this_host_needs_one_too(judge, peer):
    assert await judge(caller(peer=peer)) == UNAUTHENTICATED


@pytest.mark.parametrize(
    "problem", [Unreachable("no answer"), Forbidden(403, "Forbidden", "no right")]
)
async def test_access_is_refused_while_reviews_fail(judge, reviews, problem):
    reviews.problem = problem

    judgement = await judge(caller(authorization="Bearer good"))

    assert judgement.verdict is AccessVerdict.UNAVAILABLE
    assert str(problem) not in judgement.message


async def test_an_outage_is_reported_once_and_again_after_it_was_over(judge, reviews, problems):
    reviews.problem = Unreachable("no answer")
    for _ in range(5):
        await judge(caller(authorization="Bearer hunter2"))
    reviews.problem = None
    await judge(caller(authorization="Bearer good"))
    reviews.problem = Unreachable("no answer")
    await judge(caller(authorization="Bearer hunter2"))

    assert problems == ["no answer"] * 2


async def test_made_up_tokens_of_one_address_are_reviewed_at_a_rate(judge, reviews):
    answers = [await judge(caller(authorization=f"Bearer made-up-{i}")) for i in range(200)]

    assert answers[0] == UNAUTHENTICATED
    assert answers[-1].verdict is AccessVerdict.THROTTLED
    assert 20 <= len(reviews.asked) <= 22


async def test_made_up_tokens_of_many_addresses_are_reviewed_at_a_rate(judge, reviews):
    for i in range(200):
        await judge(caller(authorization=f"Bearer made-up-{i}", peer=f"10.0.1.{i}"))

    assert 50 <= len(reviews.asked) <= 55


async def test_an_accepted_token_is_not_delayed_by_invalid_ones(judge):
    for i in range(200):
        await judge(caller(authorization=f"Bearer made-up-{i}"))

    assert await judge(caller(authorization="Bearer good")) == ALLOWED


async def test_rights_that_have_to_be_asked_about_are_asked_at_a_rate(judge):
    answers = [await judge(caller(f"/debug/{i}", "Bearer good")) for i in range(300)]

    assert answers[0].verdict is AccessVerdict.FORBIDDEN
    assert answers[-1].verdict is AccessVerdict.THROTTLED
    assert await judge(caller("/metrics", "Bearer good")) == ALLOWED


@pytest.mark.parametrize("path", HEALTH)
async def test_open_pages_need_nothing(judge, reviews, path):
    assert await judge(caller(path)) == ALLOWED
    assert reviews.asked == []


@pytest.mark.parametrize(
    ("paths", "path", "want"),
    [
        (("/metrics",), "/metrics", True),
        (("metrics",), "/metrics", True),
        (("/metrics",), "/metrics/x", False),
        (("/debug/*",), "/debug/queue", True),
        (("/debug/*",), "/debugger", False),
        (("*",), "/anything", True),
        ((), "/metrics", False),
    ],
)
def test_open_paths_may_end_in_a_star(paths, path, want):
    assert (path in OpenPaths(paths)) is want


class NoTransport:
    """An API server that accepts no token."""

    async def send(self, *_):
        return Reply(201, {}, b'{"status":{}}')


def options(**flags) -> ProcessOptions:
    return ProcessOptions(settings=load.defaults(), **flags)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
async def test_at_home_callers_of_this_host_need_no_token(address):
    home = options(kubeconfig="~/.kube/config", bind_address=address)
    judge = page_authorizer(home, Client(NoTransport()), pytest.fail)

    assert await judge(caller(peer="127.0.0.1")) == ALLOWED
    assert (await judge(caller(peer="10.0.0.7"))).verdict is AccessVerdict.FORBIDDEN


@pytest.mark.parametrize(
    "flags",
    [
        {"kubeconfig": "", "bind_address": "127.0.0.1"},
        {"kubeconfig": "", "bind_address": "0.0.0.0"},
        {"kubeconfig": "~/.kube/config", "bind_address": "0.0.0.0"},
        {"kubeconfig": "~/.kube/config", "bind_address": "10.0.0.1"},
        {"kubeconfig": "~/.kube/config", "bind_address": ""},
    ],
    ids=["in a pod, on its loopback", "in a pod", "on all addresses", "on one", "by default"],
)
async def test_every_client_needs_a_token_everywhere_else(flags):
    judge = page_authorizer(options(**flags), Client(NoTransport()), pytest.fail)

    assert await judge(caller(peer="127.0.0.1")) == UNAUTHENTICATED
    assert await judge(caller(peer="127.0.0.1", authorization="Bearer x")) == UNAUTHENTICATED


async def names(judge: PageAuthorizer, *namespaces: str) -> list[str]:
    """Return those of some namespaces whose pods Ada may know by name."""
    decision = await judge(caller(authorization="Bearer good"))
    visible = await decision.names.visible(namespaces)
    return [namespace for namespace in namespaces if namespace in visible]


async def test_who_may_get_all_pods_sees_all_names_with_one_review(judge, reviews):
    reviews.readable = {""}

    assert await names(judge, "a", "b") == ["a", "b"]
    assert reviews.known == [""]


async def test_names_are_shown_where_the_user_may_get_pods(judge, reviews):
    reviews.readable = {"b"}

    assert await names(judge, "a", "b", "") == ["b"]
    assert sorted(reviews.known) == ["", "a", "b"]


async def test_namespaces_beyond_the_limits_are_hidden(judge, reviews):
    reviews.readable = {f"n{i:03}" for i in range(200)}

    first = await names(judge, *sorted(reviews.readable))
    second = await names(judge, *sorted(reviews.readable))

    assert len(first) == 50
    assert 50 < len(second) <= 101


@pytest.mark.parametrize("readable", ["", "a"])
async def test_a_watch_keeps_its_names_while_others_use_up_the_limits(
    judge, reviews, monkeypatch, readable
):
    reviews.readable = {readable}
    watching = (await judge(caller(authorization="Bearer good"))).names
    assert "a" in await watching.visible(["a"])
    reviews.known.clear()
    monkeypatch.setattr(Rate, "take", lambda _rate, _now: False)

    assert "a" in await watching.visible(["a"])

    monkeypatch.setattr(page_access, "_REMEMBERED_SECONDS", 0.0)
    assert "a" not in await watching.visible(["a"])


async def test_a_watch_asks_for_all_namespaces_in_turns(judge, reviews):
    reviews.readable = {f"n{number:02}" for number in range(80)}
    watching = (await judge(caller(authorization="Bearer good"))).names
    numbers = []
    for _ in range(2):
        numbers.append(len(await watching.visible(sorted(reviews.readable))))
        reviews.known.clear()

    assert numbers == [50, 80]


async def test_names_cannot_be_shown_while_the_api_server_is_unavailable(judge, reviews, problems):
    decision = await judge(caller(authorization="Bearer good"))
    reviews.problem = Unreachable("no answer")

    with pytest.raises(StatusError, match="cannot be checked now"):
        await decision.names.visible(["a"])
    assert problems == ["no answer"]


def certified(path: str, username: str = "ada", authorization: str | None = None) -> Caller:
    """Return a caller with a client certificate."""
    plain = caller(path, authorization)
    identity = ClientIdentity(username, ("developers",), "00ff")
    return Caller(plain.verb, plain.path, plain.headers, plain.peer, identity)


async def test_a_client_certificate_needs_no_token(judge, reviews):
    assert await judge(certified("/metrics")) == ALLOWED
    assert reviews.asked == []


async def test_a_client_certificate_comes_before_a_token(judge, reviews):
    judgement = await judge(certified("/metrics", "bob", "Bearer good"))

    assert judgement.message == 'forbidden: User "bob" cannot get path "/metrics"'
    assert reviews.asked == []


async def test_rights_are_reviewed_for_user_and_groups_of_the_certificate(judge, reviews):
    seen: list[AuthenticatedUser] = []

    async def allows(user: AuthenticatedUser, verb: str, path: str) -> bool:
        seen.append(user)
        return True

    reviews.allows = allows
    await judge(certified("/configz"))

    assert seen == [
        AuthenticatedUser(
            "ada",
            "",
            ("developers", "system:authenticated"),
            {"authentication.kubernetes.io/credential-id": ["X509SHA256=00ff"]},
        )
    ]


async def test_rights_on_documents_are_not_those_on_the_api_of_kubernetes(judge):
    judgement = await judge(caller("/api/v1/nodes", "Bearer good"))

    assert judgement.message == (
        'forbidden: User "ada" cannot get path "/preemptive-scheduler/api/v1/nodes"'
    )
