"""Recordings for the tests of `replay`."""

from pathlib import Path

import pytest

from tests.cli.recorded import lived
from tests.support.recordings import RecordedMachine


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    """Return a recording of one segment."""
    recorded = RecordedMachine(tmp_path / "incident.rec")
    lived(recorded)
    return recorded.path


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    """Return the same with four segments."""
    recorded = RecordedMachine(tmp_path / "longer.rec")
    lived(recorded, segments=True)
    return recorded.path
