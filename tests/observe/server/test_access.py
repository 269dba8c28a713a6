import pytest

from scheduler.observe.server import access
from scheduler.observe.server.access import AccessVerdict, Caller


def caller(peer: str) -> Caller:
    return Caller("get", "/metrics", {"Authorization": "Bearer hunter2"}, peer)


@pytest.mark.parametrize(
    ("peer", "want"),
    [
        ("127.0.0.1", AccessVerdict.ALLOWED),
        ("127.9.9.9", AccessVerdict.ALLOWED),
        ("::1", AccessVerdict.ALLOWED),
        ("::ffff:127.0.0.1", AccessVerdict.ALLOWED),
        ("10.0.0.7", AccessVerdict.FORBIDDEN),
        ("::ffff:10.0.0.7", AccessVerdict.FORBIDDEN),
        ("", AccessVerdict.FORBIDDEN),
        ("localhost", AccessVerdict.FORBIDDEN),
    ],
)
async def test_loopback_is_this_host_only(peer, want):
    assert (await access.loopback(caller(peer))).verdict is want


def test_a_caller_that_is_logged_does_not_show_its_token():
    assert "hunter2" not in repr(caller("10.0.0.7"))
