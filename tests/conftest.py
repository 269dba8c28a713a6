"""Settings and fixtures that all tests share."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from scheduler.core.machine import Machine
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.cluster import profiles

# Random tests are reproducible: the same examples each time, none remembered between runs.
# `pytest --hypothesis-profile=deep` looks further, with other examples each time; a failing one
# is printed in a form that can be pasted into the test.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "deep",
    max_examples=2000,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Give a machine with the default profile whose invariants hold at the end of the test."""
    made = Machine(profiles(), PodBackoff())
    yield made
    made.check()
