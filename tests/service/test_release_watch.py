"""When a process notices that the API servers have another release, and when it acts upon that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from scheduler.config.field_errors import ConfigError, Problem
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.errors import Unreachable
from scheduler.kube.server_version import ServerVersion
from scheduler.model.releases import V1_36, Reference
from scheduler.service.release_watch import ReleaseWatch
from tests.service.test_release_finder import Log

#: What each API server says; `-` does not answer.
SERVERS = {
    "5": ServerVersion("1", "35+"),
    "6": ServerVersion("1", "36"),
    "7": ServerVersion("1", "37", emulation_major="1", emulation_minor="37"),
    "8": ServerVersion("1", "38"),
    "e": ServerVersion("1", "37", emulation_major="1", emulation_minor="36"),
    "?": ServerVersion("one", "many"),
}


@dataclass
class Life:
    """A process that follows v1.36, and a clock that moves only between two looks."""

    leads: bool = False
    restarts: list[tuple[float, str]] = field(default_factory=list)
    mismatches: list[int] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    now: float = 0.0
    asked: str = ""

    async def read(self) -> ServerVersion:
        name, self.asked = self.asked[0], self.asked[1:] + self.asked[0]
        if name == "-":
            raise Unreachable("refused")
        return SERVERS[name]

    def restart(self, reference: Reference) -> None:
        self.restarts.append((self.now / 60, reference.name))

    async def lives(
        self,
        answers: Sequence[tuple[str, int]],
        restart: Callable[[Reference], None] | None,
        used: Reference = V1_36,
    ) -> None:
        """Look once a minute, for so many minutes at servers that answer so, in turns."""
        watch = ReleaseWatch(
            used=used,
            read=self.read,
            sleeper=Sleeper(lambda: 0.0),
            elapsed=lambda: self.now,
            log=self.log,
            leads=lambda: self.leads,
            restart=restart,
        )
        for self.asked, minutes in answers:
            for _ in range(minutes):
                await watch.look()
                self.mismatches.append(int(watch.agreement.differs))
                if self.restarts:
                    return
                self.now += 60.0


@pytest.mark.parametrize(
    ("answers", "restarts", "mismatch"),
    [
        pytest.param([("6", 30)], [], 0, id="the same"),
        pytest.param([("7", 30)], [(10, "v1.37")], 1, id="another one"),
        pytest.param([("7", 10)], [], 1, id="not long enough"),
        pytest.param([("6", 5), ("7", 30)], [(15, "v1.37")], 1, id="upgraded"),
        pytest.param([("67", 99)], [], 1, id="two releases in turns"),
        pytest.param([("67", 99), ("7", 30)], [(109, "v1.37")], 1, id="in turns, then upgraded"),
        pytest.param([("67", 99), ("6", 30)], [], 0, id="in turns, then undone"),
        pytest.param([("7", 9), ("776", 1), ("7", 9)], [], 1, id="one answer of the old release"),
        pytest.param([("7", 9), ("6", 1), ("7", 30)], [(20, "v1.37")], 1, id="undone and repeated"),
        pytest.param([("7-", 30)], [(10, "v1.37")], 1, id="some do not answer"),
        pytest.param([("7", 5), ("-", 4), ("7", 9)], [(10, "v1.37")], 1, id="a short outage"),
        pytest.param([("7", 5), ("-", 6), ("7", 9)], [], 1, id="a long outage"),
        pytest.param([("7", 5), ("-", 30)], [], 1, id="no answers any more"),
        pytest.param([("-", 30)], [], 0, id="no answers"),
        pytest.param([("?", 30)], [], 0, id="no version"),
        pytest.param([("5", 30)], [], 0, id="older than all releases"),
        pytest.param([("8", 30)], [(10, "v1.37")], 1, id="newer than all releases"),
        pytest.param([("7", 5), ("8", 30)], [(10, "v1.37")], 1, id="two that are followed alike"),
        pytest.param([("e", 30)], [], 0, id="emulates the same"),
        pytest.param([("e7", 99)], [], 1, id="emulates the same, in turns with another one"),
    ],
)
async def test_a_process_restarts_when_all_answers_agree(answers, restarts, mismatch):
    life = Life()

    await life.lives(answers, life.restart)

    assert life.restarts == restarts
    assert life.mismatches[-1] == mismatch


async def test_a_replica_that_leads_waits_until_the_other_one_has_changed():
    life = Life(leads=True)

    await life.lives([("7", 30)], life.restart)

    assert life.restarts == [(12, "v1.37")]


async def test_a_difference_is_reported_once_and_so_is_its_end():
    life = Life()

    await life.lives([*[("6", 3), ("67", 9)] * 3, ("7", 30), ("6", 15), ("7", 1)], None)

    assert [event for _, event, _ in life.log.lines] == [
        "reference_mismatch",
        "reference_matches",
        "reference_mismatch",
    ]
    assert life.log.lines[0][2] == {"decides_as": "v1.36", "servers": ["v1.36", "v1.37"]}
    assert life.mismatches == [*([0] * 3 + [1] * 9) * 3, *[1] * 30, *[0] * 15, 1]


async def test_a_process_that_could_not_start_again_goes_on_and_says_why_once():
    def unusable(_: Reference) -> None:
        raise ConfigError("config.yaml", (Problem("shape", None, "unknown field"),))

    life = Life()

    await life.lives([("7", 30)], unusable)

    assert life.log.warnings == ["reference_mismatch", "reference_not_changed"]
