"""`top`: the live view of queue, nodes and preemptions; one frame where there is no terminal."""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rich.console import Console

from scheduler.kubectl.client import PAUSE_SECONDS
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import NodesDocument, NodeUsage, PendingPodsDocument, Summary
from scheduler.model.rest.preemptions import PreemptionsDocument
from scheduler.terminal.top import TopPicture, TopSnapshot, live

__all__ = ["run"]

#: Rows that are read of lists: more than a terminal shows.
ROWS: Final = 100
#: The size of the frame that a pipe gets.
PIPE_WIDTH, PIPE_HEIGHT = 80, 40
_QUIT: Final = frozenset("qQ\x03\x04")
#: A frame is drawn at least so often, for a terminal whose size has changed.
FRAME_SECONDS: Final = 1.0
#: When a scheduler that does not answer is mentioned.
SILENCE_SECONDS: Final = 4.0


@dataclass
class _Nodes:
    """The nodes, as a watch keeps them."""

    by_name: dict[str, NodeUsage] = field(default_factory=dict)
    problem: CommandError | None = None

    async def follow(self, session: Session) -> None:
        """Keep them up to date; try again as long as the view is open."""
        while True:
            try:
                async for update in session.client.follow("/nodes", NodesDocument):
                    self.take(update.document, whole=update.whole)
                    self.problem = None
            except CommandError as error:
                self.problem = error
            await asyncio.sleep(PAUSE_SECONDS)

    def take(self, document: NodesDocument, *, whole: bool) -> None:
        """Apply a document."""
        if whole:
            self.by_name.clear()
        self.by_name |= {node.name: node for node in document.items}
        for name in document.removed:
            self.by_name.pop(name, None)


@dataclass
class _Frames:
    """What is shown: the last answers, and for how long the next one is awaited."""

    snapshot: TopSnapshot
    asked_at: float | None = None

    async def follow(self, session: Session, nodes: _Nodes, draw: Callable[[], None]) -> None:
        """Ask once per interval, and draw what is answered."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(session.arguments.interval)
            self.asked_at = loop.time()
            self.snapshot = await _refreshed(session, nodes, self.snapshot)
            self.asked_at = None
            draw()

    def current(self) -> TopSnapshot:
        """Return the last answers, with a problem if the scheduler is silent."""
        if self.asked_at is None:
            return self.snapshot
        silent = asyncio.get_running_loop().time() - self.asked_at
        if silent < SILENCE_SECONDS:
            return self.snapshot
        return replace(self.snapshot, problem=f"no response from the scheduler for {silent:.0f} s")


async def run(session: Session) -> int:
    """Show the view until the user ends it; return the exit code."""
    if session.arguments.once or not _redraws():
        await _once(session)
        return 0
    nodes = _Nodes()
    frames = _Frames(await _read(session, nodes))  # before the screen changes: errors are printed
    tasks = [asyncio.create_task(nodes.follow(session))]
    try:
        with _keys() as quits, live(Console(highlight=False)) as screen:

            def draw() -> None:
                screen.update(TopPicture(frames.current(), "q quits"), refresh=True)

            tasks.append(asyncio.create_task(frames.follow(session, nodes, draw)))
            while not quits.is_set():
                for task in filter(asyncio.Task.done, tasks):
                    task.result()  # it ends by a defect alone
                draw()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(quits.wait(), FRAME_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return 0


def _redraws() -> bool:
    """Return whether there are keys, and a terminal on which a frame can replace another."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


async def _once(session: Session) -> None:
    nodes = _Nodes()
    nodes.take((await session.client.pages("/nodes", NodesDocument)).document, whole=True)
    snapshot = await _read(session, nodes)
    width = session.out.width or PIPE_WIDTH
    console = Console(width=width, height=PIPE_HEIGHT, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(TopPicture(snapshot))
    for line in captured.get().rstrip().split("\n"):
        session.out.line(line.rstrip())


async def _read(session: Session, nodes: _Nodes) -> TopSnapshot:
    client = session.client
    summary = await client.get("/summary", Summary)
    pending = await client.get("/pods", PendingPodsDocument, limit=ROWS)
    preemptions = await client.get("/preemptions", PreemptionsDocument, limit=ROWS)
    return TopSnapshot(
        summary.document,
        list(nodes.by_name.values()),
        pending.document.items,
        preemptions.document.items,
        pending.document.hidden,
        preemptions.document.hidden,
        str(nodes.problem or ""),
    )


async def _refreshed(session: Session, nodes: _Nodes, old: TopSnapshot) -> TopSnapshot:
    """Return the next snapshot; after an error the old one with the problem."""
    try:
        return await _read(session, nodes)
    except CommandError as error:
        return replace(old, problem=str(error))


@contextlib.contextmanager
def _keys() -> Iterator[asyncio.Event]:
    """Read single keys; give the event that is set when one of them quits."""
    quits = asyncio.Event()
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before: Any = termios.tcgetattr(number)

    def pressed() -> None:
        if set(sys.stdin.read(1) or "q") & _QUIT:
            quits.set()

    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield quits
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
