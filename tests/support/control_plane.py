"""Fixtures for the control plane of `deploy.tools.controlplane`, started once a process.

Tests that use them carry the marker `cluster`. Under pytest-xdist each worker starts a control
plane of its own. A file that starts another one is an `xdist_group`: one worker runs it, in order.

The cluster is shared: a test works in its own `namespace`, and on nodes that it creates under names
and labels of its own and removes again.

`KUBERNETES=v1.34.4` runs them against that version, which `deploy/tools/controlplane/go` has to
pin. A test whose subject an older API server does not have says so, and why; it is skipped there by
name:

    @pytest.mark.needs_server("1.35", "older API servers do not clear nominatedNodeName on binding")
"""

import itertools
import os
from collections.abc import Iterator

import pytest

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from scheduler.model.releases import Reference, of_server

#: The Kubernetes version to test against; `None` is the default pin.
VERSION = os.environ.get("KUBERNETES") or None

#: What that version is, where it is the default one.
TESTED = VERSION or binaries.pinned_version("kube-apiserver")

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The control plane, with controllers and KWOK, without nodes."""
    with ControlPlane(Settings(version=VERSION)) as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace; its pods are deleted when the test ends."""
    name = f"test-{next(_numbers)}"
    control_plane.create_namespace(name)
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    control_plane.api.delete(pods, gracePeriodSeconds="0")
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose subject the API server under test does not have."""
    for item in items:
        if (marker := item.get_closest_marker("needs_server")) is not None:
            oldest, why = marker.args
            if minor(TESTED) < minor(oldest):
                reason = f"{item.name} needs {oldest}, this is {TESTED}: {why}"
                item.add_marker(pytest.mark.skip(reason=reason))


def followed() -> Reference:
    """Return the release of kube-scheduler that decides on the API server under test."""
    major, number = minor(TESTED)
    found = of_server(str(major), str(number))
    assert found is not None, TESTED
    return found[0]


def minor(version: str) -> tuple[int, int]:
    """Return major and minor of a version like "v1.34.4" or "1.35"."""
    parts = version.removeprefix("v").split(".")
    return int(parts[0]), int(parts[1])
