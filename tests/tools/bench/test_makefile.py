"""What `make bench` and `make profile` would do."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def commands(*arguments: str) -> str:
    """Return what make would run, without line continuations."""
    answer = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return " ".join(answer.stdout.replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["bench"], "run --size 'full' --workloads '' ;"),
        (["bench", "SIZE=small"], "run --size 'small' --workloads '' ;"),
        (
            ["bench", "WORKLOADS=Basic Idle", "RUNS=3"],
            "run --size 'full' --workloads 'Basic Idle' --runs '3';",
        ),
        (["profile", "WORKLOAD=PodAffinity"], "profile 'PodAffinity' --size 'full'"),
        (["profile", "SIZE=small"], "profile 'Basic' --size 'small'"),
    ],
    ids=["everything", "in small", "some, so many runs", "a profile", "a profile in small"],
)
def test_what_is_asked_for_is_handed_on(arguments: list[str], want: str):
    assert f"deploy.tools.bench {want}" in commands(*arguments)


def test_the_page_is_written_after_the_runs():
    made = commands("bench", "SIZE=small")

    assert made.index("deploy.tools.bench run") < made.index(
        "deploy.tools.bench report --size 'small'"
    )


def test_the_benchmark_of_the_core_alone_is_still_there():
    assert "tests.perf.bench_core" in commands("bench-core")
