"""Which connections are kept."""

import pytest

from scheduler.observe.server import connections
from scheduler.observe.server.connections import ConnectionTable, OpenConnection


def test_one_peer_loses_its_connection_that_was_idle_longest():
    table = ConnectionTable(8)
    held = [OpenConnection("a", float(i)) for i in range(6)]
    for each in held:
        table.admit(each)
    held[0].idle_since = 10.0

    assert table.admit(OpenConnection("a", 11.0)) is held[1]
    assert len(table) == 6


def test_a_new_connection_replaces_one_of_the_peer_with_most_connections():
    table = ConnectionTable(8)
    many = [OpenConnection("many", 5.0 + i) for i in range(6)]
    few = [OpenConnection("few", float(i)) for i in range(2)]
    for each in (*many, *few):
        table.admit(each)

    assert table.admit(OpenConnection("kubelet", 20.0)) is many[0]
    assert len(table) == 8


def test_among_peers_with_one_connection_the_oldest_is_closed():
    table = ConnectionTable(4)
    held = [OpenConnection(f"peer-{i}", float(i)) for i in range(4)]
    for each in held:
        table.admit(each)

    assert table.admit(OpenConnection("kubelet", 20.0)) is held[0]


def test_a_busy_connection_stays():
    table = ConnectionTable(4)
    busy = [OpenConnection(f"peer-{i}", 0.0, busy=True) for i in range(4)]
    for each in busy:
        table.admit(each)
    newcomer = OpenConnection("stranger", 1.0)

    assert table.admit(newcomer) is newcomer
    assert len(table) == 4
    assert table.least() is None


def test_a_peer_whose_connections_are_all_busy_gets_no_other():
    table = ConnectionTable(8)
    for _ in range(6):
        table.admit(OpenConnection("a", 0.0, busy=True))
    newcomer = OpenConnection("a", 1.0)

    assert table.admit(newcomer) is newcomer


def test_a_connection_that_ended_frees_its_slot():
    table = ConnectionTable(4)
    held = [OpenConnection(f"peer-{i}", 0.0) for i in range(4)]
    for each in held:
        table.admit(each)

    table.drop(held[0])
    table.drop(held[0])
    table.drop(OpenConnection("unknown", 0.0))

    assert len(table) == 3
    assert table.admit(OpenConnection("new", 1.0)) is None


@pytest.mark.parametrize(
    ("descriptors", "want"), [(-1, 512), (1_048_576, 512), (1024, 256), (256, 64), (20, 16)]
)
def test_most_descriptors_are_reserved_for_requests(descriptors, want):
    assert connections.bounded(512, descriptors) == want


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_ipv6(address, want):
    assert connections.peer(address) == want


#: What arrives, in parts, and how much of it counts before the response.
COUNTED = {
    "a head that has not ended": ((b"GET / HTTP/1.1\r\n", b"A: b\r\n"), 22),
    "a head that has not ended, of a form": ((b"POST / HTTP/1.1\r\n", b"A: b\r\n"), 23),
    "requests that do not wait for the response": ((b"GET / HTTP/1.1\r\n\r\n",) * 3, 54),
    "a head with its body": ((b"POST / HTTP/1.1\r\nA: b\r\n\r\n" + b"x" * 90, b"x" * 90), 21),
    "a body in small parts": ((b"PO", b"ST / HTTP/1.1\r", b"\n\r", b"\n", b"x" * 9000), 15),
    "a body after an empty line": ((b"\r\n\r\nPOST / HTTP/1.1\r\n\r\n", b"x"), 24),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_what_comes_before_a_response_is_counted_without_a_body(case):
    parts, wanted = COUNTED[case]
    connection = OpenConnection("a", 0.0)

    for _ in range(2):
        counts = [connection.count(part) for part in parts]
        assert counts[-1] == wanted
        connection.answered(1.0)
