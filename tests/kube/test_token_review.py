"""Reviews of tokens and rights by the API server: cached, limited, and none without need."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler.kube import token_review
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Forbidden, KubeError, ServerUnavailable, Unreachable
from scheduler.kube.token_review import AuthenticatedUser, CachedReview, Reviewer, ReviewSettings

ADA = AuthenticatedUser("ada", "1", ("devs", "system:authenticated"), {"scopes": ["a"]})
SPEC = {"username": "ada", "uid": "1", "groups": ["devs"], "extra": {"scopes": ["a"]}}


@dataclass
class Server:
    """An API server with some users and their rights, which counts reviews."""

    users: dict[str, Any] = field(default_factory=lambda: {"good": SPEC})
    rights: set[tuple[str, str, str]] = field(default_factory=lambda: {("ada", "get", "/metrics")})
    asked: list[tuple[str, Any]] = field(default_factory=list)
    #: Answers that come first, instead.
    instead: list[Reply] = field(default_factory=list)
    #: Where set, answers wait for it.
    goes_on: asyncio.Event | None = None
    at_once: int = 0
    most_at_once: int = 0

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        assert (method, content_type) == ("POST", "application/json")
        sent = json.loads(body or b"")
        self.asked.append((path, sent))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.goes_on is not None:
            await self.goes_on.wait()
        self.at_once -= 1
        if self.instead:
            return self.instead.pop(0)
        status = self._token(sent) if sent["kind"] == "TokenReview" else self._access(sent)
        return Reply(201, {}, json.dumps({**sent, "status": status}).encode())

    def _token(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        user = self.users.get(sent["spec"]["token"])
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user}

    def _access(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        spec = sent["spec"]
        wanted = spec["nonResourceAttributes"]
        return {"allowed": (spec["user"], wanted["verb"], wanted["path"]) in self.rights}


@pytest.fixture
def server() -> Server:
    return Server()


def reviewer(server: Server, **settings: Any) -> Reviewer:
    return Reviewer(Client(server), ReviewSettings(**settings))


async def test_a_user_has_all_fields_that_rights_depend_on(server):
    assert await reviewer(server).user("good") == ADA

    ((path, sent),) = server.asked
    assert path == token_review.TOKEN_REVIEWS
    assert sent == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "good"},
    }


async def test_rights_are_asked_for_with_the_whole_user(server):
    allowed = await reviewer(server).allows(ADA, "get", "/metrics")

    ((path, sent),) = server.asked
    assert allowed
    assert path == token_review.ACCESS_REVIEWS
    assert sent == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ada",
            "uid": "1",
            "groups": ["devs", "system:authenticated"],
            "extra": {"scopes": ["a"]},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        },
    }


@pytest.mark.parametrize("status", [{"allowed": False}, {"allowed": True, "denied": True}])
async def test_a_user_who_is_not_allowed_or_is_denied_has_no_right(server, status):
    server.instead.append(Reply(201, {}, json.dumps({"status": status}).encode()))

    assert not await reviewer(server).allows(ADA, "get", "/metrics")


async def test_answers_are_remembered_for_a_while(server):
    asking = reviewer(server)
    for _ in range(3):
        assert await asking.user("good") == ADA
        assert await asking.user("bad") is None
        assert await asking.allows(ADA, "get", "/metrics")
        assert not await asking.allows(ADA, "get", "/configz")

    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("setting", "token", "path", "times"),
    [
        ("token_seconds", "good", "/metrics", 3),
        ("refused_seconds", "bad", "/metrics", 2),
        ("token_seconds", "bad", "/metrics", 1),
        ("allowed_seconds", "good", "/metrics", 3),
        ("denied_seconds", "good", "/configz", 3),
        ("denied_seconds", "good", "/metrics", 2),
        ("allowed_seconds", "good", "/configz", 2),
    ],
)
async def test_each_kind_of_answer_has_its_own_time(server, setting, token, path, times):
    asking = reviewer(server, **{setting: 0.0})
    for _ in range(2):
        user = await asking.user(token)
        if user is not None:
            await asking.allows(user, "get", path)

    assert len(server.asked) == times


async def test_the_rights_of_one_user_are_not_used_for_another(server):
    asking = reviewer(server)
    other = AuthenticatedUser("ada", "1", ("system:authenticated",), {"scopes": ["a"]})

    assert await asking.allows(ADA, "get", "/metrics")
    server.rights.clear()

    assert await asking.allows(ADA, "get", "/metrics")
    assert not await asking.allows(other, "get", "/metrics")
    assert not await asking.allows(ADA, "post", "/metrics")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(500, {}, b'{"message":"etcd"}'), ServerUnavailable),
        (Reply(403, {}, b'{"kind":"Status","message":"no right"}'), Forbidden),
        (Reply(201, {}, b"<html>"), Unreachable),
        (Reply(201, {}, b"{}"), Unreachable),
        (Reply(201, {}, b'{"status":{"authenticated":"yes"}}'), Unreachable),
        (Reply(201, {}, b'{"status":{"authenticated":true}}'), Unreachable),
    ],
)
async def test_a_failure_is_raised_and_not_cached(server, reply, error):
    asking = reviewer(server)
    server.instead.append(reply)

    with pytest.raises(error):
        await asking.user("good")
    assert await asking.user("good") == ADA


@pytest.mark.parametrize("reply", [Reply(201, {}, b"{}"), Reply(201, {}, b'{"status":{}}')])
async def test_an_answer_without_rights_allows_nothing(server, reply):
    asking = reviewer(server)
    server.instead.append(reply)

    with pytest.raises(Unreachable):
        await asking.allows(ADA, "get", "/metrics")


async def test_concurrent_callers_with_one_token_share_a_review(server):
    server.goes_on = asyncio.Event()
    asking = reviewer(server, at_once=1)
    tasks = [asyncio.create_task(asking.user("good")) for _ in range(20)]
    await asyncio.sleep(0)

    server.goes_on.set()

    assert await asyncio.gather(*tasks) == [ADA] * 20
    assert len(server.asked) == 1


async def test_only_a_few_reviews_run_at_once(server):
    server.goes_on = asyncio.Event()
    asking = reviewer(server, at_once=4)
    tasks = [asyncio.create_task(asking.user(f"stranger-{i}")) for i in range(50)]
    for _ in range(10):
        await asyncio.sleep(0)

    server.goes_on.set()
    await asyncio.gather(*tasks)

    assert server.most_at_once == 4
    assert len(server.asked) == 50


async def test_a_caller_that_disconnects_during_a_review_frees_its_place(server):
    server.goes_on = asyncio.Event()
    asking = reviewer(server, at_once=1)
    cancelled = asyncio.create_task(asking.user("stranger"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    server.goes_on.set()

    async with asyncio.timeout(10):
        assert await asking.user("good") == ADA


async def test_a_server_that_does_not_answer_is_not_waited_for(server):
    server.goes_on = asyncio.Event()

    with pytest.raises(Unreachable, match=r"no response within 0\.05 s"):
        await reviewer(server, answer_seconds=0.05).user("good")


async def test_what_is_remembered_is_bounded(server):
    asking = reviewer(server, entries=10)
    for i in range(50):
        await asking.user(f"stranger-{i}")
        await asking.allows(ADA, "get", f"/debug/{i}")

    assert len(asking._refused) == 10
    assert len(asking._rights) == 10


async def test_tokens_are_neither_kept_nor_logged(server):
    server.instead.append(Reply(500, {}, b'{"message":"no"}'))
    asking = reviewer(server)

    with pytest.raises(KubeError) as told:
        await asking.user("hunter2")
    await asking.user("hunter2")

    assert "hunter2" not in str(told.value)
    assert "hunter2" not in repr(vars(asking)) + repr(vars(asking._users))


async def test_expired_entries_are_dropped():
    kept: CachedReview[str, int] = CachedReview(2)
    kept.put("a", 1, 0.01)
    kept.put("b", 2, 0)

    await asyncio.sleep(0.02)

    assert (kept.get("a"), kept.get("b")) == (None, None)
    assert len(kept) == 0


async def test_a_recently_accepted_token_does_not_wait_for_reviews_of_invalid_ones(server):
    asking = reviewer(server, token_seconds=0.0, at_once=4)
    assert await asking.user("good") == ADA
    server.goes_on = asyncio.Event()
    strangers = [asyncio.create_task(asking.user(f"made-up-{i}")) for i in range(50)]
    for _ in range(10):
        await asyncio.sleep(0)
    before = len(server.asked)

    scrape = asyncio.create_task(asking.user("good"))
    for _ in range(10):
        await asyncio.sleep(0)

    assert [sent["spec"]["token"] for _, sent in server.asked[before:]] == ["good"]
    server.goes_on.set()
    assert await scrape == ADA
    assert await asyncio.gather(*strangers) == [None] * 50


async def test_made_up_tokens_push_no_accepted_one_out(server):
    asking = reviewer(server, entries=3)
    await asking.user("good")
    for i in range(10):
        await asking.user(f"made-up-{i}")

    before = len(server.asked)
    assert await asking.user("good") == ADA
    assert len(server.asked) == before


async def test_a_token_is_strange_until_it_is_accepted_and_when_it_is_no_longer(server):
    asking = reviewer(server, token_seconds=0.0, refused_seconds=0.0)

    strange = [asking.needs_review("good")]
    await asking.user("good")
    strange.append(asking.needs_review("good"))
    server.users.clear()
    await asking.user("good")
    strange.append(asking.needs_review("good"))

    assert strange == [True, False, True]


@pytest.mark.parametrize("group", ["system:authenticated", "system:unauthenticated"])
async def test_the_group_of_authenticated_users_is_not_added_twice(server, group):
    server.users["good"] = {"username": "ada", "groups": [group]}

    assert await reviewer(server).user("good") == AuthenticatedUser("ada", "", (group,))


async def test_an_answer_that_is_remembered_needs_no_review(server):
    asking = reviewer(server)

    before = asking.needs_review("bad"), asking.is_cached(ADA, "get", "/configz")
    await asking.user("bad")
    await asking.allows(ADA, "get", "/configz")

    assert before == (True, False)
    assert (asking.needs_review("bad"), asking.is_cached(ADA, "get", "/configz")) == (False, True)
