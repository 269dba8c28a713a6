"""What a workload is.

Each is a function that builds it on a stage. Its name is that of the workload, its docstring says
what decides, and so why no more is left open than which of several interchangeable nodes is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.integration.stage import Stage


@dataclass(frozen=True)
class Workload:
    """Objects that are there before the scheduler starts, and what happens later."""

    build: Callable[[Stage], None]
    #: How many pods have a node at last, how many wait, and how many were evicted.
    totals: tuple[int, int, int]
    #: What happens when the scheduler has nothing left to do, one after the other, each with how
    #: many pods have a node before it.
    later: tuple[tuple[int, Callable[[Stage], None]], ...] = ()
    #: Fields of the profile.
    profile: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of the configuration.
    config: Mapping[str, Any] = field(default_factory=dict)
    #: What the extender of the configuration answers, by verb; it is started on a port of its own.
    answers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    #: The oldest API server that it can run on, and why.
    needs: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """How it is called."""
        return self.build.__name__

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        """Where it cannot run, as a marker."""
        return () if self.needs is None else (pytest.mark.needs_server(*self.needs),)
