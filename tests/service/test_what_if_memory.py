"""The memory of the processes that compute plans: one budget, whatever the container has left."""

import asyncio
from pathlib import Path

import pytest

from scheduler.service.what_if_memory import LEAST_BYTES, budget, share
from tests.service.test_what_if import JSON, World, authorized_by_token, new, runs, until, world

MIB = 1 << 20
HUGE = "9223372036854771712"
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

pytestmark = pytest.mark.timeout(120)


def group(folder: Path, names: tuple[str, str, str], limit: str, used: int, files: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {files}\nactive_file 7\n")


@pytest.mark.parametrize(("names", "below"), [(V2, ""), (V1, "memory")], ids=["v2", "v1"])
def test_three_quarters_of_what_is_left_beside_the_processes_is_theirs(tmp_path, names, below):
    own = tmp_path / "own"
    own.write_text("4:cpu,memory:/a/b\n0::/a/b\n")
    group(tmp_path / below, names, "1000", 700, files=100)
    assert budget(0, tmp_path, own) == 300
    assert budget(200, tmp_path, own) == 450  # of the 600, the scheduler has 400
    group(tmp_path / below, names, "1000", 1200)
    assert budget(0, tmp_path, own) == 0

    # Outside of a container each group above counts, and the least that is left.
    group(tmp_path / below, names, HUGE, 700)
    group(tmp_path / below / "a", names, "900", 800)
    group(tmp_path / below / "a" / "b", names, "500", 100)
    assert budget(0, tmp_path, own) == 75


@pytest.mark.parametrize(
    ("total", "taken", "found"),
    [(400, 0, 200), (400, 200, 200), (300, 200, 100), (150, 0, 96), (150, 96, 54), (50, 0, 50)],
)
def test_each_process_has_its_share_and_no_more_than_is_left(total, taken, found):
    assert share(total * MIB, 2, taken * MIB) == found * MIB


def limit_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Max data size")).split()[3])


async def two(made: World) -> list[tuple[int, dict]]:
    """Ask for two plans at once, as two callers."""
    made.delay = 1.0
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(made.post(new("x"), {**JSON, "Authorization": f"Bearer {user}"}))
            for user in ("ada", "bob")
        ]
    made.delay = 0.0
    return [task.result() for task in tasks]


async def test_all_processes_have_one_budget_that_each_request_counts_again():
    async with world() as made:
        made.authorize = authorized_by_token
        made.memory = 400 * MIB
        assert [code for code, _ in await two(made)] == [200, 200]
        first = made.processes
        assert [limit_of(pid) for pid in first] == [200 * MIB] * 2

        made.memory = 220 * MIB
        assert [code for code, _ in await two(made)] == [200, 200]
        assert set(made.processes) == set(first)
        assert sum(map(limit_of, first)) <= made.memory

        made.memory = 150 * MIB
        answers = await two(made)
        assert sorted(code for code, _ in answers) == [200, 503]
        refusal = next(answer for code, answer in answers if code == 503)
        assert "54 MiB of memory left for a plan, and the least is 96 MiB" in refusal["message"]

        made.memory = LEAST_BYTES - 1
        (code, answer), _ = await two(made)
        assert code == 503
        assert "95 MiB of memory left" in answer["message"]
        await until(lambda: not any(map(runs, first)))
