"""The console for a cluster, on a stand-in of the scheduler."""

from collections.abc import AsyncIterator

import pytest

from tests.support.api_stand_in import StandIn, serving
from tests.web_console.public_console import ADA, BOB, PublicConsole, public_console


@pytest.fixture
async def scheduler() -> StandIn:
    stand_in = StandIn()
    stand_in.switches.token = "unused"
    stand_in.switches.users = {ADA: "ada", BOB: "bob"}
    return stand_in


@pytest.fixture
async def console(scheduler: StandIn) -> AsyncIterator[PublicConsole]:
    async with serving(scheduler) as url, public_console([url]) as console:
        yield console
