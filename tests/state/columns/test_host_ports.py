"""Host ports in use, by row."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import ContainerPort
from scheduler.state.columns.host_ports import PortUse
from scheduler.state.columns.pod_footprints import HostPort, WantedPorts, host_ports
from tests.support.builders import container, pod

TCP_80 = HostPort("0.0.0.0", "TCP", 80)
LOCAL_80 = HostPort("127.0.0.1", "TCP", 80)
OTHER_80 = HostPort("10.0.0.1", "TCP", 80)
UDP_80 = HostPort("0.0.0.0", "UDP", 80)
TCP_81 = HostPort("0.0.0.0", "TCP", 81)

CONFLICTS = [
    ("the same", LOCAL_80, LOCAL_80, True),
    ("every address against one", TCP_80, LOCAL_80, True),
    ("one against every address", LOCAL_80, TCP_80, True),
    ("two addresses", LOCAL_80, OTHER_80, False),
    ("another protocol", TCP_80, UDP_80, False),
    ("another port", TCP_80, TCP_81, False),
]


@pytest.mark.parametrize(
    ("one", "other", "want"), [pytest.param(*row[1:], id=row[0]) for row in CONFLICTS]
)
def test_two_ports_conflict(one, other, want):
    assert WantedPorts([one]).conflict({other}) is want


def test_rows_with_a_conflicting_port_are_found():
    use = PortUse()
    use.add(0, [LOCAL_80])
    use.add(1, [OTHER_80, TCP_81])
    use.add(2, [UDP_80])

    assert use.conflicting_rows(WantedPorts([LOCAL_80])) == {0}
    assert use.conflicting_rows(WantedPorts([TCP_80])) == {0, 1}
    assert use.conflicting_rows(WantedPorts([HostPort("0.0.0.0", "TCP", 443)])) == set()


def test_a_freed_port_does_not_conflict():
    use = PortUse()
    use.add(0, [LOCAL_80, TCP_81])

    use.remove(0, [LOCAL_80])

    assert use.conflicting_rows(WantedPorts([TCP_80])) == set()
    assert use.on(0) == {TCP_81}


def test_the_first_of_two_removed_pods_frees_the_port():
    use = PortUse()
    use.add(0, [TCP_80])
    use.add(0, [TCP_80])

    use.remove(0, [TCP_80])

    assert use.on(0) == set()


def test_freeing_an_unused_port_does_nothing():
    use = PortUse()
    use.remove(0, [TCP_80])
    use.add(0, [TCP_81])

    use.remove(0, [TCP_80])

    assert use.on(0) == {TCP_81}


def test_the_ports_of_a_row_are_returned_as_a_copy():
    use = PortUse()
    use.add(0, [TCP_80])

    use.on(0).clear()

    assert use.on(0) == {TCP_80}


def test_host_ports_are_read_from_containers_and_sidecars_with_defaults_filled_in():
    listening = replace(container(), ports=[ContainerPort(8080)])
    builder = (
        pod("p")
        .port(80, protocol="UDP", address="10.0.0.1")
        .init(
            replace(listening, restart_policy="Always"),
            replace(listening, ports=[ContainerPort(9)]),
        )
    )

    assert host_ports(builder.build()) == (
        HostPort("10.0.0.1", "UDP", 80),
        HostPort("0.0.0.0", "TCP", 8080),
    )


def test_a_container_port_without_a_host_port_is_none():
    assert host_ports(pod("p").port(0).build()) == ()
