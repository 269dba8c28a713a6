"""`top`: the live view of queue, nodes and preemptions; one frame where there is no terminal."""

import argparse
import asyncio
import contextlib
import io
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from scheduler.kubectl import parsing, text
from scheduler.kubectl.client import PAUSE_SECONDS
from scheduler.kubectl.commands import preemptions, why
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import NodesDocument, NodeUsage, PendingPodsDocument, Summary
from scheduler.model.rest.preemptions import PreemptionsDocument
from scheduler.terminal.browsing import Browsing, Row, keys, press
from scheduler.terminal.top import TopPicture, TopSnapshot, live

__all__ = ["run"]

#: Rows that are read of lists: more than a terminal shows, and those that a filter looks through.
ROWS: Final = 100
SEARCHED: Final = 1_000
#: The size of the frame that a pipe gets.
PIPE_WIDTH, PIPE_HEIGHT = 120, 40
ASKING: Final = "Asking the scheduler …"
#: The most that is read of keys at once; a text that is pasted may be long.
KEYS_BYTES: Final = 1024
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
    browsing: Browsing = field(default_factory=Browsing)
    #: Set when another answer is needed before the interval ends.
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, session: Session, nodes: _Nodes, draw: Callable[[], None]) -> None:
        """Ask once per interval, and draw what is answered."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.hurry.wait(), session.arguments.interval)
            self.hurry.clear()
            self.asked_at = loop.time()
            self.snapshot = await _refreshed(session, nodes, self.snapshot, self.browsing)
            self.asked_at = None
            draw()

    #: The page that was asked for.
    opening: asyncio.Task[list[Text]] | None = None

    def press(self, key: str, session: Session, wake: Callable[[], None]) -> bool:
        """Apply a key, and the page if it has come; return whether the view goes on.

        Args:
            key: Empty for none.
            session: Asks for a page.
            wake: Called when it has come.
        """
        self.browsing, wish = press(self.browsing, key, self.rows())
        if wish == "read":
            self.hurry.set()
        elif wish == "open":
            self.opening = asyncio.create_task(_page(session, self.browsing))
            self.opening.add_done_callback(lambda _: wake())
            self.browsing = replace(self.browsing, page=[Text(ASKING)])
        elif not self.browsing.page:
            self.close()
            self.opening = None
        elif self.opening and self.opening.done():
            self.browsing = replace(self.browsing, page=self.opening.result())
            self.opening = None
        return wish != "quit"

    def close(self) -> None:
        """Ask for no page any more."""
        if self.opening:
            self.opening.cancel()

    def rows(self) -> Sequence[Row]:
        """Return the rows among which keys select."""
        if self.browsing.preemptions:
            return self.browsing.past(self.snapshot.preemptions)
        return self.browsing.pods(self.snapshot.pending)

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
        with _keys() as pressed, live(Console(highlight=False)) as screen:

            def draw() -> None:
                picture = TopPicture(frames.current(), browsing=frames.browsing)
                screen.update(picture, refresh=True)

            tasks.append(asyncio.create_task(frames.follow(session, nodes, draw)))
            key = ""
            while frames.press(key, session, lambda: pressed.put_nowait("")):
                for task in filter(asyncio.Task.done, tasks):
                    task.result()  # it ends by a defect alone
                draw()
                try:
                    key = await asyncio.wait_for(pressed.get(), FRAME_SECONDS)
                except TimeoutError:
                    key = ""
    finally:
        frames.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return 0


async def _page(session: Session, browsing: Browsing) -> list[Text]:
    """Return what `why` or `preemptions` prints about the selected row."""
    if browsing.preemptions:
        argv, run = ["preemptions", "--", browsing.selected], preemptions.run
    else:
        namespace, _, name = browsing.selected.partition("/")
        argv, run = ["why", f"--namespace={namespace}", "--", name], why.run
    arguments = argparse.Namespace(**vars(session.arguments))
    parsing.parser().parse_args(argv, arguments)
    arguments.server = session.arguments.server
    stream = io.StringIO()
    out = Output(stream, Console().width, color=session.out.color)
    try:
        await run(replace(session, arguments=arguments, out=out))
    except CommandError as error:
        for line in (f"error: {error}", *error.advice.splitlines()):
            out.line(text.clean(line))
    return [Text.from_ansi(line) for line in stream.getvalue().split("\n")]


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


async def _read(session: Session, nodes: _Nodes, browsing: Browsing | None = None) -> TopSnapshot:
    client = session.client
    rows = SEARCHED if browsing and browsing.narrowed else ROWS
    namespace = browsing.namespace if browsing else ""
    summary = await client.get("/summary", Summary)
    pending = await client.get("/pods", PendingPodsDocument, limit=rows, namespace=namespace)
    past = await client.get("/preemptions", PreemptionsDocument, limit=rows)
    return TopSnapshot(
        summary.document,
        list(nodes.by_name.values()),
        pending.document.items,
        past.document.items,
        pending.document.hidden,
        past.document.hidden,
        str(nodes.problem or ""),
    )


async def _refreshed(
    session: Session, nodes: _Nodes, old: TopSnapshot, browsing: Browsing
) -> TopSnapshot:
    """Return the next snapshot; after an error the old one with the problem."""
    try:
        return await _read(session, nodes, browsing)
    except CommandError as error:
        return replace(old, problem=str(error))


@contextlib.contextmanager
def _keys() -> Iterator[asyncio.Queue[str]]:
    """Read keys as long as the view is open, and restore the terminal, whatever ends it."""
    pressed: asyncio.Queue[str] = asyncio.Queue()
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before: Any = termios.tcgetattr(number)

    def read() -> None:
        sent = os.read(number, KEYS_BYTES).decode(errors="replace")
        for key in keys(sent) if sent else ["quit"]:
            pressed.put_nowait(key)

    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
