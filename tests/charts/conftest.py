from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries
from tests.charts.rendering import Helm


@pytest.fixture(scope="session")
def helm_path() -> Path:
    """Where helm is; it is built if it is nowhere."""
    return binaries.find("helm")


@pytest.fixture
def helm(helm_path: Path, tmp_path: Path) -> Helm:
    return Helm(helm_path, tmp_path)
