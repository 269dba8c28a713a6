"""Which callers may read which page."""

import pytest

from scheduler.config import load
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Forbidden, Unreachable
from scheduler.kube.token_review import AuthenticatedUser
from scheduler.observe.server.access import ALLOWED, UNAUTHENTICATED, AccessVerdict, Caller
from scheduler.service.options import ProcessOptions
from scheduler.service.page_access import OpenPaths, PageAuthorizer, page_authorizer

HEALTH = ("/healthz", "/readyz", "/livez")


class Reviews:
    """A reviewer with one user, Ada, that may read metrics."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.asked: list[str] = []

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


async def test_a_user_with_the_right_is_allowed(judge):
    assert await judge(caller(authorization="Bearer good")) == ALLOWED


@pytest.mark.parametrize("header", ["bearer good", "  BEARER good  ", "Bearer good more"])
async def test_the_header_is_read_as_an_api_server_reads_it(judge, header):
    assert await judge(caller(authorization=header)) == ALLOWED


async def test_a_user_without_the_right_gets_the_missing_right(judge):
    judgement = await judge(caller("/configz", "Bearer good"))

    assert judgement.verdict is AccessVerdict.FORBIDDEN
    assert judgement.message == 'forbidden: User "ada" cannot get path "/configz"'


async def test_an_unknown_token_is_refused(judge):
    assert await judge(caller(authorization="Bearer bad")) == UNAUTHENTICATED


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
