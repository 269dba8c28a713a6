"""Which release of kube-scheduler a process follows."""

import json
from typing import Any

import pytest

from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Unreachable
from scheduler.model.releases import V1_36, V1_37
from scheduler.service.release_finder import PATIENCE_SECONDS, ReleaseFinder

NAMED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: PreemptiveScheduler, args: {reference: v1.37}}]
"""
AUTO: Settings = load.defaults()


class Server:
    """An API server that answers what a test says; the last answer is repeated."""

    def __init__(self, *answers: Reply | Unreachable) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def send(self, method: str, path: str, *_: Any) -> Reply:
        assert (method, path) == ("GET", "/version")
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Unreachable):
            raise answer
        return answer


class Log:
    """What was logged: event and fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, str]]] = []

    def info(self, event: str, **fields: str) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: str) -> None:
        self.lines.append(("warning", event, fields))

    @property
    def warnings(self) -> list[str]:
        return [event for level, event, _ in self.lines if level == "warning"]


def version(minor: str, major: str = "1") -> Reply:
    return Reply(200, {}, json.dumps({"major": major, "minor": minor}).encode())


def finder(server: Server) -> ReleaseFinder:
    """Return a finder whose clock moves only while it sleeps."""
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    client = Client(server)  # type: ignore[arg-type]
    return ReleaseFinder(client, Sleeper(lambda: 0.5, sleep), lambda: now[0], Log())


async def test_a_release_that_the_configuration_names_counts():
    server = Server(version("36"))
    found = finder(server)

    assert await found.choose(load.parse(NAMED, source="test")) is V1_37

    said = {"decides_as": "kube-scheduler v1.37.2", "source": "configuration"}
    assert found.log.lines == [("info", "reference", said)]
    assert server.asked == 0


@pytest.mark.parametrize(
    ("minor", "reference", "warnings"),
    [
        pytest.param("36", V1_36, [], id="1.36"),
        pytest.param("37", V1_37, [], id="1.37"),
        pytest.param("35", V1_36, ["server_of_other_release"], id="an older server"),
        pytest.param("38", V1_37, ["server_of_other_release"], id="a newer server"),
    ],
)
async def test_otherwise_the_release_of_the_api_server_counts(minor, reference, warnings):
    found = finder(Server(version(minor)))

    assert await found.choose(AUTO) is reference

    assert found.log.warnings == warnings


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Reply(403, {}, b'{"kind":"Status"}'), id="forbidden"),
        pytest.param(Reply(404, {}, b"404 page not found"), id="a server without the page"),
        pytest.param(version("many"), id="no number"),
    ],
)
async def test_a_refusal_is_not_waited_out(answer):
    server = Server(answer)
    found = finder(server)

    assert await found.choose(AUTO) is V1_36

    assert server.asked == 1
    assert found.log.warnings == ["server_version_unknown"]
    assert found.unknown


async def test_a_server_that_is_starting_is_waited_for():
    found = finder(Server(Unreachable("refused"), Unreachable("refused"), version("37")))

    assert await found.choose(AUTO) is V1_37

    assert found.log.warnings == []


async def test_a_server_that_does_not_answer_is_not_waited_for_without_end():
    found = finder(Server(Unreachable("refused")))

    assert await found.choose(AUTO) is V1_36

    assert PATIENCE_SECONDS < found.elapsed() < 2 * PATIENCE_SECONDS
    assert found.log.warnings == ["server_version_unknown"]


@pytest.mark.parametrize(
    ("minor", "differs"),
    [pytest.param("36", False, id="the same"), pytest.param("37", True, id="another one")],
)
async def test_a_version_that_was_not_read_is_read_again_later(minor, differs):
    server = Server(Reply(403, {}, b'{"kind":"Status"}'), version(minor))
    found = finder(server)
    reference = await found.choose(AUTO)

    assert await found.differs(reference) is differs


async def test_a_version_that_is_still_unknown_changes_nothing():
    found = finder(Server(Unreachable("refused")))
    reference = await found.choose(AUTO)

    assert not await found.differs(reference)


async def test_a_version_that_was_read_is_not_read_again():
    server = Server(version("36"), version("37"))
    found = finder(server)
    reference = await found.choose(AUTO)

    assert not await found.differs(reference)
    assert server.asked == 1
