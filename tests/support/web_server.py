"""A web server in a process of its own, for tests that attack it.

Run it as a module. It prints its port, and serves until its standard input ends. Its pages, which
need no token, let a test hold up the loop that the scheduler would run in, and take descriptors as
requests to an API server would:

* `/debug/hold?seconds=3` keeps the loop busy with Python code;
* `/debug/open?count=50` opens that many descriptors at once, and says how many there were.
"""

import asyncio
import contextlib
import logging
import os
import resource
import socket
import sys
from collections.abc import Mapping

import structlog
import uvloop

from scheduler.observe.pages.routes import Routes, ZPage
from scheduler.observe.server import access
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.web import Web
from scheduler.service.clock import Clock


def hold(query: Mapping[str, str]) -> str:
    clock = Clock()
    end = clock.perf() + float(query["seconds"])
    while clock.perf() < end:
        sum(range(1000))
    return "held up\n"


def take(query: Mapping[str, str]) -> str:
    opened: list[int] = []
    with contextlib.suppress(OSError):
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(int(query["count"])))
    for each in opened:
        os.close(each)
    return f"{len(opened)}\n"


async def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    nothing = ZPage("Statusz", "it", "", {})
    pages = Routes(
        metrics=lambda accept: (b"", "text/plain"),
        configz=dict,
        flagz=lambda: nothing,
        statusz=lambda: nothing,
        debug={"/debug/hold": hold, "/debug/open": take},
    )
    log = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))  # the test reads standard output
    web = Web(pages, log, access.allow_all)
    await web.start(Listen(), Clock().wall, socket.create_server(("127.0.0.1", 0), backlog=1024))
    print(web.port, flush=True)  # noqa: T201 - the test reads this
    await asyncio.to_thread(sys.stdin.read)
    await web.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
    uvloop.run(main())
