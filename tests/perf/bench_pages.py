"""The longest step of each page in the scheduler's loop, at 5,000 nodes and 30,000 pods.

    python -m tests.perf.bench_pages

Each node has a taint of its own, 30,000 pods run, 30,000 wait, 200 preemptions are under way, the
ledger is full. A step is what a page does before it gives the loop back. Its CPU time is printed,
which other work on the machine does not add to, and its wall clock, which that does. Steps of more
than 5 ms of CPU time are named, and make the exit code 1.
"""

import asyncio
import gc
import sys
import time
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod, Taint
from scheduler.model.decisions import Detail
from scheduler.model.events import NodeObserved, PodObserved, PolicyObserved
from scheduler.model.policies import Budget, BudgetScope, PreemptionPolicy
from scheduler.observe.api.api import PREFIX, Api
from scheduler.observe.api.history import History
from scheduler.observe.api.requests import EVERY_NAME, ApiRequest, Stream
from scheduler.observe.pages.debug import Debug
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.state.preemption.ledger import MAX_ENTRIES, EvictionEntry
from tests.perf.core_cases import node, pod
from tests.perf.feed_cases import SETTINGS
from tests.perf.policy_cases import NODES, NOW, PODS, running_pod

LIMIT_MS: Final = 5.0
WAITING: Final = 30_000
PREEMPTIONS: Final = 200
_POD: Final = "/pods/{namespace}/{name}"
_TOLERANT: Final[Mapping[str, Any]] = {"tolerations": [{"operator": "Exists"}]}


def explained() -> Mapping[str, Pod]:
    """Return pods that wait for different reasons."""
    selecting = {"nodeSelector": {"kubernetes.io/hostname": "none"}}
    pods = (
        pod("tainted", "1", priority=20),
        pod("preempting", "20", priority=20, **_TOLERANT),
        pod("too-large", "100", priority=20, **_TOLERANT),
        pod("short", "4", **_TOLERANT),
        pod("selecting", "1", priority=20, **selecting, **_TOLERANT),
    )
    return {each.metadata.name: each for each in pods}


def state() -> tuple[Machine, History]:
    """Return a machine with everything, and what it has decided."""
    made = Machine(registry.profiles(SETTINGS), PodBackoff(), detail=Detail.COMPARISON)
    history = History(made, NOW)
    for index in range(NODES):
        plain = node(index)
        spec = replace(plain.spec, taints=[Taint(f"own-{index}", "", "NoSchedule")])
        made.observe(NodeObserved(replace(plain, spec=spec)), NOW)
    for index in range(NODES * PODS):
        made.observe(PodObserved(running_pod(index)), NOW)
    for serial in range(MAX_ENTRIES):
        victim = EvictionEntry(
            NOW, f"v-{serial}", "default", f"Job/default/{serial}", f"node-{serial % NODES}",
            frozenset({"p"}),
        )  # fmt: skip
        made.ledger.count_victim(victim)
    for serial in range(PREEMPTIONS):
        made.observe(PodObserved(pod(f"high-{serial}", "20", priority=10, **_TOLERANT)), NOW)
    _decide(made, history, PREEMPTIONS)
    budgets = tuple(Budget(10**6, 3600.0, scope) for scope in BudgetScope)
    made.observe(PolicyObserved(PreemptionPolicy("p", budgets=budgets)), NOW)
    for each in explained().values():
        made.observe(PodObserved(each), NOW)
    _decide(made, history, len(explained()))
    for serial in range(WAITING):
        made.observe(PodObserved(pod(f"waits-{serial}", "100", priority=-1, **_TOLERANT)), NOW)
    return made, history


def _decide(made: Machine, history: History, count: int) -> None:
    for _ in range(count):
        attempt = made.step(NOW)
        assert attempt is not None
        history.attempted(attempt, NOW)


class Steps:
    """The longest steps of what it awaits."""

    def __init__(self) -> None:
        #: Milliseconds.
        self.cpu = self.wall = 0.0
        self.number = 0

    @types.coroutine
    def timed(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Await something, and note how long each of its steps takes."""
        while True:
            begun, used = time.perf_counter(), time.thread_time()
            try:
                awaited = work.send(None)
            except StopIteration as end:
                return end.value
            finally:
                self.cpu = max(self.cpu, 1e3 * (time.thread_time() - used))
                self.wall = max(self.wall, 1e3 * (time.perf_counter() - begun))
                self.number += 1
            yield awaited

    async def take(self, page: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Make all parts of a page; of a watch, those up to the first event."""
        content: object = await self.timed(page())
        endless = isinstance(content, Stream) and content.endless
        parts = content.parts if isinstance(content, Stream) else content
        if not isinstance(parts, AsyncGenerator):
            return
        taken = 0
        while not endless or taken < 2:
            try:
                await self.timed(_next(parts))
            except StopAsyncIteration:
                break
            taken += 1
        await parts.aclose()


async def _next(parts: AsyncGenerator[object]) -> object:
    return await anext(parts)


def pages(machine: Machine, history: History) -> Mapping[str, Callable[[], Any]]:
    """Return what makes each page, by what is asked."""
    api = Api(machine, history, lambda: NOW, lambda: True, lambda: (), "i", ("default",), NOW)
    documents, debug = api.pages(), Debug(machine, lambda: NOW).pages()
    found: dict[str, Callable[[], Any]] = {}

    def add(path: str, **query: str) -> None:
        shown = path.format(**query) + "".join(
            f" {name}={value}" for name, value in query.items() if f"{{{name}}}" not in path
        )
        found[shown] = lambda: documents[PREFIX + path](ApiRequest(query, EVERY_NAME))

    for path in ("", "/summary", "/nodes", "/labels", "/pods", "/preemptions", "/policies"):
        add(path)
    add("/nodes/{name}", name="node-1")
    for path in ("/nodes", "/pods", "/preemptions"):
        add(path, limit="5000")
    add("/pods", owner="Job/none")
    for path in ("/summary", "/nodes", "/preemptions", "/policies"):
        add(path, watch="1")

    async def made(path: str, query: Mapping[str, str]) -> object:
        content = debug[path](query)
        return await content if isinstance(content, Coroutine) else content

    for path in ("/debug/queue", "/debug/nodes", "/debug/snapshot"):
        found[path] = lambda path=path: made(path, {})
    for name in explained():
        where = {"namespace": "default", "name": name}
        add(_POD, **where)
        add(_POD, **where, nodes="1")
        found[f"/debug/pods/default/{name}"] = lambda where=where: made(f"/debug{_POD}", where)
    return found


async def measure() -> list[str]:
    """Print a line for each page; return those with a step that is too long."""
    machine, history = state()
    gc.collect()
    gc.freeze()
    slow = []
    sys.stdout.write(f"{'longest step':45} {'CPU ms':>8} {'wall ms':>8} {'steps':>6}\n")
    for name, page in pages(machine, history).items():
        await Steps().take(page)
        # The least disturbed round counts: CPU time also grows while a CPU is shared.
        rounds = [Steps() for _ in range(3)]
        for steps in rounds:
            await steps.take(page)
        cpu, wall = (min(getattr(each, kind) for each in rounds) for kind in ("cpu", "wall"))
        sys.stdout.write(f"{name:45} {cpu:8.2f} {wall:8.2f} {rounds[0].number:6}\n")
        sys.stdout.flush()
        if cpu > LIMIT_MS:
            slow.append(name)
    return slow


def main() -> int:
    slow = asyncio.run(measure())
    sys.stdout.write(f"above {LIMIT_MS:g} ms: {', '.join(slow) or 'none'}\n")
    return int(bool(slow))


if __name__ == "__main__":
    raise SystemExit(main())
