import pytest

from deploy.tools.controlplane import binaries
from tests.charts.rendering import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm, which is built if it is nowhere."""
    return Helm(binaries.find("helm"))
