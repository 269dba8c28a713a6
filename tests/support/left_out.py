"""Says at the end of a run which tests it left out, and which target runs them.

pytest only counts tests that an expression of markers deselects. Here they are counted by marker,
under pytest-xdist in the workers, which all collect the same.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Final

import pytest

from tests.support.seeds import ALL_SEEDS

#: The target of each marker. A test counts for the first of its markers here.
TARGETS: Final = {
    "e2e": "make e2e, as root, after make e2e-packages",
    "browser": "make browser, after make browser-packages as root",
    "chart": "make chart",
    "deep": "make deep",
    "cluster": "make test",
    "": "",
}
#: The key of the tests that have looked at a third of their seeds.
SEEDED: Final = "seeded"
#: The key of the counts in what a worker reports.
KEY: Final = "left_out"


class LeftOut:
    """Counts the tests that are left out, and prints the counts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            self._counts[next(name for name in TARGETS if not name or has(item, name))] += 1

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not ALL_SEEDS:
            self._counts[SEEDED] = sum(has(item, SEEDED) for item in session.items)
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[KEY] = dict(self._counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take the counts of a worker of pytest-xdist that has ended."""
        self._counts |= Counter(getattr(node, "workeroutput", {}).get(KEY, {}))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> Generator[None]:
        """Print the counts below everything else, above the last line."""
        yield
        if not self._counts.total():
            return
        terminalreporter.section("left out", "-")
        if config.option.markexpr:
            terminalreporter.line(f"with -m '{config.option.markexpr}':")
        for name, target in TARGETS.items():
            if count := self._counts[name]:
                terminalreporter.line(f"{count:6} {name or 'other'}: {target}".rstrip(": "))
        if count := self._counts[SEEDED]:
            terminalreporter.line(f"two thirds of the seeds of {count} tests: make deep")


def has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut())
