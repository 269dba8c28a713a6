"""Runs commands of the plugin against stand-ins."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from scheduler.kubectl import connection, parsing
from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.service.clock import Clock
from tests.support.api_stand_in import StandIn, serving
from tests.support.certificates import Authority
from tests.support.stand_in_documents import NOW


class Printed(NamedTuple):
    code: int
    text: str


Run: TypeAlias = Callable[..., Awaitable[Printed]]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def scheduler() -> StandIn:
    return StandIn()


@pytest.fixture
async def url(scheduler: StandIn) -> AsyncIterator[str]:
    async with serving(scheduler) as url:
        yield url


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command; the environment has only what is given."""

    async def run(*argv: str, width: int | None = 80, color: bool = False, **env: str) -> Printed:
        arguments = parsing.parser().parse_args(argv)
        way = connection.reach(arguments, {"HOME": str(tmp_path), **env}, Clock())
        text = io.StringIO()
        out = Output(text, width, color=color)
        command = import_module(f"scheduler.kubectl.commands.{arguments.command}")
        async with SchedulerClient(way.open, direct=bool(way.server)) as client:
            session = Session(arguments, client, out, lambda: NOW, way.selection)
            code = await command.run(session)
        return Printed(code, text.getvalue())

    return run
