"""`top`: the live view of queue, nodes and preemptions; one frame where there is no terminal."""

import asyncio
import contextlib
import sys
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console

from scheduler.console import view
from scheduler.console.top import TopPicture, TopSnapshot
from scheduler.kubectl.client import PAUSE_SECONDS
from scheduler.kubectl.errors import PluginError
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import NodesDocument, NodeView, PendingPodsDocument, Summary
from scheduler.model.rest.preemptions import PreemptionsDocument

__all__ = ["run"]

#: Rows that are read of lists: more than a terminal shows.
ROWS: Final = 100
#: The size of the frame that a pipe gets.
PIPE_WIDTH, PIPE_HEIGHT = 80, 40
_QUIT: Final = frozenset("qQ\x03\x04")


@dataclass
class _Nodes:
    """The nodes, as a watch keeps them."""

    by_name: dict[str, NodeView] = field(default_factory=dict)
    problem: PluginError | None = None

    async def follow(self, session: Session) -> None:
        """Keep them up to date; try again as long as the view is open."""
        while True:
            try:
                async for update in session.client.follow("/nodes", NodesDocument):
                    self.take(update.document, whole=update.whole)
                    self.problem = None
            except PluginError as error:
                self.problem = error
            await asyncio.sleep(PAUSE_SECONDS)

    def take(self, document: NodesDocument, *, whole: bool) -> None:
        """Apply a document."""
        if whole:
            self.by_name.clear()
        self.by_name |= {node.name: node for node in document.items}
        for name in document.removed:
            self.by_name.pop(name, None)


async def run(session: Session) -> int:
    """Show the view until the user ends it; return the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or session.arguments.once:
        await _once(session)
        return 0
    nodes = _Nodes()
    snapshot = await _read(session, nodes)  # before the screen changes: errors are printed
    watching = asyncio.create_task(nodes.follow(session))
    try:
        with _keys() as quits, view.live(Console(highlight=False)) as live:
            while not quits.is_set():
                live.update(TopPicture(snapshot, "q quits"), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(quits.wait(), session.arguments.interval)
                if not quits.is_set():
                    snapshot = await _refreshed(session, nodes, snapshot)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return 0


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
        str(nodes.problem or ""),
    )


async def _refreshed(session: Session, nodes: _Nodes, old: TopSnapshot) -> TopSnapshot:
    """Return the next snapshot; after an error the old one with the problem."""
    try:
        return await _read(session, nodes)
    except PluginError as error:
        return TopSnapshot(old.summary, old.nodes, old.pending, old.preemptions, str(error))


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
