"""The page of plans with its processes: answers, limits, and failures."""

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import pytest
import structlog

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy
from scheduler.model.events import NodeObserved, PodGone, PodObserved, PolicyObserved
from scheduler.model.policies import Budget
from scheduler.observe.api.requests import EVERY_NAME, StatusError
from scheduler.observe.pages.routes import Routes, ZPage
from scheduler.observe.server import access, what_if_route
from scheduler.observe.server.access import AccessDecision, AccessVerdict, Caller
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.web import Web
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service import what_if
from scheduler.service.clock import Clock
from scheduler.service.recording import copied
from scheduler.service.what_if import WhatIf, WhatIfLimits
from scheduler.sim.what_if_cluster import State
from scheduler.state.preemption.ledger import EvictionEntry
from tests.support.builders import OURS, PodBuilder, node, pod
from tests.support.policies import policy

SETTINGS = load.defaults()
NOTHING = ZPage("Statusz", "it", "", {})
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}
NOW = 1_767_226_600.0

pytestmark = pytest.mark.timeout(120)

TEMPLATE = {"spec": {"schedulerName": OURS, "containers": [{"name": "c", "image": "c"}]}}


def new(name: str, cpu: str = "1", priority: int = 0, namespace: str = "default") -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"priority": priority, "schedulerName": OURS, "containers": [container]},
    }


class World:
    """A web server with a page of plans about a small cluster."""

    def __init__(self, limits: WhatIfLimits | None = None) -> None:
        #: The memory that all processes may have together; `None` without a limit.
        self.memory: int | None = None
        self.machine = Machine(registry.profiles(SETTINGS), PodBackoff())
        self.log: list[tuple[str, Mapping[str, object]]] = []
        self.problem: str | None = None
        #: Called before the state is passed on.
        self.before: Callable[[], None] = lambda: None
        self.delay = 0.0
        self.page = WhatIf(
            self._feed, self._note, lambda: self.problem, limits, lambda _: self.memory
        )
        for each in (node("n1").cpu("2"), node("n2").cpu("1")):
            self.machine.observe(NodeObserved(each.build()), NOW)
        for each in (
            pod("a").on("n1").cpu("2"),
            pod("b").namespace("secret").on("n2").cpu("1").priority(1),
        ):
            self.machine.observe(PodObserved(each.build()), NOW)
        pages = Routes(
            metrics=lambda _: (b"", "text/plain"),
            configz=dict,
            flagz=lambda: NOTHING,
            statusz=lambda: NOTHING,
            what_if=self.page,
        )
        self.authorize = access.allow_all
        self._web = Web(pages, structlog.get_logger(), self._authorize)
        self._session = aiohttp.ClientSession()

    async def _authorize(self, caller: Caller) -> AccessDecision:
        return await self.authorize(caller)

    def _note(self, event: str, **fields: object) -> None:
        self.log.append((event, fields))

    async def _feed(self) -> tuple[State, MachineCopy]:
        self.before()
        await asyncio.sleep(self.delay)
        return State((), SETTINGS, NOW), await copied(self.machine, Clock().perf)

    async def start(self) -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        await self._web.start(Listen(plain=True), Clock().wall, bound)

    async def post(
        self, body: object, headers: Mapping[str, str] = JSON
    ) -> tuple[int, dict[str, Any]]:
        code, found, _ = await self.posted(body, headers)
        return code, found

    async def posted(
        self, body: object, headers: Mapping[str, str] = JSON
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        data = io.BytesIO(text.encode() if isinstance(text, str) else text)
        url = f"http://127.0.0.1:{self._web.port}/api/v1/plan"
        async with self._session.post(url, data=data, headers=headers) as response:
            return response.status, json.loads(await response.read()), response.headers

    async def close(self) -> None:
        await self._session.close()
        await self._web.close()

    @property
    def processes(self) -> list[int]:
        """Process ids of all processes for plans."""
        workers = (*self.page._idle, *self.page._busy)
        return [each._process.pid for each in workers]


@contextlib.asynccontextmanager
async def world(limits: WhatIfLimits | None = None) -> AsyncIterator[World]:
    made = World(limits)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(name="world")
async def usual() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def nothing() -> tuple[State, MachineCopy]:
    return State((), SETTINGS, NOW), MachineCopy()


def runs(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


# Answers


async def test_objects_and_requests_are_answered_by_one_process(world):
    code, answer = await world.post(new("x", "2", priority=9))
    again, drained = await world.post({"drain": ["n2"], "objects": [new("y")]})

    assert (code, again) == (200, 200)
    (item,) = answer["items"]
    assert (item["decision"], item["node"]) == ("Preempting", "n1")
    assert item["victims"][0]["pod"]["name"] == "a"
    assert drained["items"][0]["decision"] == "Unschedulable"
    assert len(world.processes) == 1


async def test_policies_and_what_they_have_spent_are_part_of_the_state(world):
    few = policy("few", budgets=(Budget(1, 3600.0),))
    world.machine.observe(PolicyObserved(few), NOW)
    entry = EvictionEntry(NOW - 60, "v", "default", "Pod/default/v", "n1", frozenset({"few"}))
    world.machine.ledger.count_victim(entry)

    _, answer = await world.post({"objects": [new("x", "2", priority=9)], "settle": False})

    assert answer["items"][0]["policies"][0]["policy"] == "few"


def decided(world: World, *pods: PodBuilder, at: float) -> None:
    """Let the live machine observe pods, and decide about all that have their turn."""
    for each in pods:
        world.machine.observe(PodObserved(each.build()), at)
    while world.machine.active():
        world.machine.step(at)


async def test_a_pod_that_backs_off_does_not_come_before_a_new_one(world):
    decided(world, pod("failed").scheduler(OURS).cpu("2"), at=NOW)
    world.machine.observe(PodGone("default/a", "uid:default/a"), NOW)

    _, answer = await world.post({"objects": [new("x", "2")], "settle": False})

    assert (answer["items"][0]["decision"], answer["items"][0]["node"]) == ("Scheduled", "n1")


async def test_pods_have_their_turns_in_the_order_of_the_queue(world):
    decided(world, pod("large").scheduler(OURS).cpu("2").created(1), at=NOW - 30)
    small = pod("small").scheduler(OURS).cpu("1").priority(0).created(2)
    world.machine.observe(PodObserved(small.build()), NOW - 40)
    world.machine.observe(PodGone("default/a", "uid:default/a"), NOW - 20)
    world.machine.flush(NOW)

    _, answer = await world.post({"objects": [new("x")], "settle": False})

    assert (answer["items"][0]["decision"], answer["items"][0]["node"]) == ("Scheduled", "n1")


async def test_names_are_those_that_the_caller_may_see(world):
    class Names:
        async def visible(self, namespaces):
            assert set(namespaces) == {"default", "secret"}
            return {"default"}

    async def authorize(caller):
        assert (caller.verb, caller.path) == ("post", "/api/v1/plan")
        return AccessDecision(AccessVerdict.ALLOWED, names=Names())

    world.authorize = authorize
    _, answer = await world.post({"objects": [new("x", "1", priority=9)], "drain": ["n1"]})

    (item,) = answer["items"]
    assert (item["pod"]["name"], item["hiddenVictims"], item["node"]) == ("x", 1, "n2")
    assert "victims" not in item
    assert '"b"' not in json.dumps(answer)


async def test_while_rights_cannot_be_reviewed_there_is_no_answer(world):
    class Names:
        async def visible(self, _namespaces):
            raise StatusError(503, "ServiceUnavailable", "cannot be checked now")

    async def authorize(_caller):
        return AccessDecision(AccessVerdict.ALLOWED, names=Names())

    world.authorize = authorize
    code, status = await world.post(new("x"))

    assert (code, status["message"]) == (503, "cannot be checked now")


# Bad input


@pytest.mark.parametrize(
    ("body", "headers", "code", "message"),
    [
        ("{", JSON, 400, "truncated"),
        ("a: [", YAML, 400, "line 2"),
        (b"\xff", YAML, 400, "UTF-8"),
        ({"nodes": []}, JSON, 400, "nor a request"),
        ({"objects": [{"kind": "Pod"}]}, JSON, 400, "objects[0]: Pod: apiVersion is missing"),
        ({"drain": ["n9"]}, JSON, 400, "there is no node 'n9'"),
        ("x", {"Content-Type": "text/plain"}, 415, "application/json or application/yaml"),
        ("x" * (10 << 20), JSON, 413, "larger than 3 MiB"),
        (
            {
                "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"},
                "spec": {"replicas": 100_000, "selector": {}, "template": TEMPLATE},
            },
            JSON, 413, "at most 10000",
        ),
    ],
)  # fmt: skip
async def test_bad_input_is_one_clear_line(world, body, headers, code, message):
    found, status = await world.post(body, headers)

    assert (found, status["kind"], status["code"]) == (code, "Status", code)
    assert message in status["message"]
    assert "\n" not in status["message"]
    assert (await world.post(new("x")))[0] == 200


async def test_a_body_without_a_length_is_read_no_further_than_allowed(world):
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 50 << 20:
            sent += 1 << 20
            yield b" " * (1 << 20)

    url = f"http://127.0.0.1:{world._web.port}/api/v1/plan"
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        async with world._session.post(url, data=endless(), headers=JSON) as response:
            assert response.status == 413

    assert sent < 30 << 20
    assert (await world.post(new("x")))[0] == 200


# Limits


async def test_one_caller_has_one_plan_at_a_time(world):
    answers = await asyncio.gather(*(world.posted(new(f"x{number}")) for number in range(5)))

    codes = sorted(code for code, _, _ in answers)
    assert codes == [200, 429, 429, 429, 429]
    assert {headers.get("Retry-After") for code, _, headers in answers if code == 429} == {"5"}
    assert (await world.post(new("x")))[0] == 200


async def authorized_by_token(caller: Caller) -> AccessDecision:
    """The user is what the token begins with, as if each had many."""
    return AccessDecision(
        AccessVerdict.ALLOWED, names=EVERY_NAME, user=caller.headers["Authorization"].split()[1][0]
    )


async def test_a_user_is_one_caller_however_the_token_is_written(world):
    world.authorize = authorized_by_token
    written = ("Bearer a", "bearer a", "Bearer  a", "Bearer a x", "Bearer a-2")
    answers = await asyncio.gather(
        *(world.post(new("x"), {**JSON, "Authorization": text}) for text in written)
    )

    assert sorted(code for code, _ in answers) == [200, 429, 429, 429, 429]


async def test_a_body_that_does_not_arrive_gives_its_place_back(world, monkeypatch):
    monkeypatch.setattr(what_if_route, "_BODY_SECONDS", 0.2)

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)

    url = f"http://127.0.0.1:{world._web.port}/api/v1/plan"
    async with world._session.post(url, data=slow(), headers=JSON) as response:
        assert response.status == 408

    assert (await world.post(new("x")))[0] == 200


async def test_a_plan_is_given_up_when_its_client_has_gone(world):
    asked = asyncio.Event()
    world.before = asked.set
    world.delay = 5.0
    asking = asyncio.create_task(world.post(new("x")))
    await asked.wait()
    (pid,) = world.processes

    asking.cancel()

    await until(lambda: not runs(pid))
    world.delay = 0.0
    assert (await world.post(new("x")))[0] == 200


async def test_places_are_limited_over_all_callers():
    limits = WhatIfLimits(at_once=1, waiting=1)
    page = WhatIf(nothing, print, lambda: None, limits)
    held = [page.admit(f"10.0.0.{number}") for number in range(2)]

    with contextlib.ExitStack() as stack:
        for ticket in held:
            stack.enter_context(ticket)
        refused = page.admit("10.0.0.9")
        assert (refused.code, refused.retry_after) == (429, 5)
    assert not isinstance(page.admit("10.0.0.9"), type(refused))


async def test_a_plan_that_takes_too_long_is_given_up():
    async with world(WhatIfLimits(deciding_seconds=0.01)) as made:
        code, status = await made.post(new("x"))

        assert (code, status["message"]) == (503, "the plan takes longer than 0.01 seconds")
        assert made.processes == []


async def test_a_process_ends_when_it_is_idle():
    async with world(WhatIfLimits(idle_seconds=0.2)) as made:
        await made.post(new("x"))
        (pid,) = made.processes

        await until(lambda: not made.processes)
        await until(lambda: not runs(pid))


async def test_a_plan_without_enough_memory_is_refused():
    async with world(WhatIfLimits(memory_bytes=96 << 20)) as made:
        many = {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "x"},
            "spec": {"replicas": 10_000, "selector": {}, "template": TEMPLATE},
        }

        code, _ = await made.post(many)

        assert code == 503


# What goes wrong


async def test_a_process_that_is_killed_in_the_middle_is_a_refusal(world):
    def kill() -> None:
        world.before = lambda: None
        (pid,) = world.processes
        os.kill(pid, signal.SIGKILL)

    world.before = kill
    code, status = await world.post(new("x"))

    assert (code, status["message"]) == (503, "the process for plans has ended")
    assert world.log[0][0] == "what_if_failed"
    assert (await world.post(new("x")))[0] == 200


async def test_a_process_that_cannot_be_started_is_a_refusal(world, monkeypatch):
    monkeypatch.setattr(what_if.sys, "executable", "/nowhere/python")

    code, status = await world.post(new("x"))

    assert (code, status["message"]) == (503, "the process for plans cannot be started")
    assert world.log[0][0] == "what_if_not_started"


async def test_while_the_state_is_not_complete_nothing_is_planned(world):
    world.problem = "not synced: pods"

    code, status = await world.post(new("x"))

    assert (code, status["message"]) == (503, "not synced: pods")


async def test_processes_end_with_the_server():
    made = World()
    await made.start()
    await made.post(new("x"))
    (pid,) = made.processes

    await made.close()

    await until(lambda: not runs(pid))


async def test_a_plan_under_way_ends_with_the_server():
    made = World()
    await made.start()
    stopping: list[asyncio.Task[None]] = []
    pids: list[int] = []

    def stop() -> None:
        pids.extend(made.processes)
        stopping.append(asyncio.create_task(made._web.close()))

    made.before = stop
    with contextlib.suppress(aiohttp.ClientError):
        code, _ = await made.post(new("x"))
        assert code in (200, 503)
    await stopping[0]
    await made._session.close()

    await until(lambda: not any(map(runs, pids)))


async def test_a_process_is_of_low_priority_and_has_nothing_of_ours(world, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    await world.post(new("x"))
    (pid,) = world.processes

    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    with open(f"/proc/{pid}/environ", "rb") as file:
        assert b"hunter2" not in file.read()
    with open(f"/proc/{pid}/oom_score_adj") as file:
        assert file.read() == "1000\n"
