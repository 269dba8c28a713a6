"""Addresses of the sandbox and its nodes, and the commands that connect them.

sandbox:  bridge nodes0 with 10.98.0.1/24, the address of the API server
node i:   eth0 with 10.98.0.1i/24 on that bridge, pods in 10.98.(128+i).0/24 on a bridge of the node
pod to API server: service 10.97.0.1:443, which kube-proxy forwards to 10.98.0.1
"""

from collections.abc import Sequence
from typing import Final

__all__ = ["GATEWAY", "PODS", "Command", "address", "bridge", "cable", "inside", "pods"]

Command = Sequence[str]

BRIDGE: Final = "nodes0"
GATEWAY: Final = "10.98.0.1"
#: All pods of all nodes.
PODS: Final = "10.98.128.0/17"


def address(number: int) -> str:
    """Return the address of a node; numbers begin with 1."""
    return f"10.98.0.{10 + number}"


def pods(number: int) -> str:
    """Return the subnet of a node's pods."""
    return f"10.98.{128 + number}.0/24"


def bridge(nodes: int) -> list[Command]:
    """Return the commands for the bridge and the routes to nodes, in the sandbox's namespace."""
    return [
        ("ip", "link", "set", "lo", "up"),
        ("ip", "link", "add", BRIDGE, "type", "bridge"),
        ("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE),
        ("ip", "link", "set", BRIDGE, "up"),
        *(("ip", "route", "add", pods(i), "via", address(i)) for i in range(1, nodes + 1)),
    ]


def cable(number: int, pid: int) -> list[Command]:
    """Return the commands that connect the network namespace of a process to the bridge."""
    end = f"node{number}"
    return [
        ("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(pid)),
        ("ip", "link", "set", end, "master", BRIDGE, "up"),
    ]


def inside(number: int, nodes: int) -> list[Command]:
    """Return the commands that configure the network in a node's namespace."""
    others = [i for i in range(1, nodes + 1) if i != number]
    return [
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{address(number)}/24", "dev", "eth0"),
        ("ip", "link", "set", "eth0", "up"),
        ("ip", "route", "add", "default", "via", GATEWAY),
        *(("ip", "route", "add", pods(i), "via", address(i)) for i in others),
    ]
