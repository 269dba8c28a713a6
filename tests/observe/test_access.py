import pytest

from scheduler.observe import access
from scheduler.observe.access import Caller, Verdict


def caller(peer: str) -> Caller:
    return Caller("get", "/metrics", {"Authorization": "Bearer hunter2"}, peer)


@pytest.mark.parametrize(
    ("peer", "want"),
    [
        ("127.0.0.1", Verdict.ALLOWED),
        ("127.9.9.9", Verdict.ALLOWED),
        ("::1", Verdict.ALLOWED),
        ("::ffff:127.0.0.1", Verdict.ALLOWED),
        ("10.0.0.7", Verdict.FORBIDDEN),
        ("::ffff:10.0.0.7", Verdict.FORBIDDEN),
        ("", Verdict.FORBIDDEN),
        ("localhost", Verdict.FORBIDDEN),
    ],
)
async def test_loopback_is_this_host_only(peer, want):
    assert (await access.loopback(caller(peer))).verdict is want


async def test_nobody_and_anybody_mean_what_they_say():
    assert (await access.nobody(caller("127.0.0.1"))).verdict is Verdict.FORBIDDEN
    assert (await access.anybody(caller("10.0.0.7"))).verdict is Verdict.ALLOWED


def test_a_caller_that_is_logged_does_not_show_its_token():
    assert "hunter2" not in repr(caller("10.0.0.7"))
