"""What containers request and nodes have."""

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.traits import Traits

__all__ = ["allocatable", "requests", "resources"]

GPU, FPGA, PAGES = "example.com/gpu", "example.com/fpga", "hugepages-2Mi"

_CPU = ("100m", "250m", "0.5", "500m", "1", "1500m", "333m", "1m", "7e-1")
_MEMORY = ("64Mi", "128Mi", "256Mi", "0.5Gi", "1Gi", "300M", "1e8", "123456789", "1500k", "300m")
_STORAGE = ("1Gi", "2Gi", "5Gi")


def allocatable(dice: Dice, traits: Traits) -> dict[str, str]:
    """Return what a node has."""
    tight = dice.chance(traits.tight)
    have = {
        "cpu": dice.pick(("1", "1500m", "2")) if tight else dice.pick(("2", "4", "8")),
        "memory": dice.pick(("512Mi", "1Gi", "2Gi")) if tight else dice.pick(("4Gi", "8Gi", "9e9")),
        "pods": dice.pick(("1", "2", "3")) if dice.chance(traits.few_places) else "110",
    }
    if dice.chance(0.02):
        del have[dice.pick(("cpu", "memory", "pods"))]
    if dice.chance(traits.ephemeral):
        have["ephemeral-storage"] = dice.pick(("2Gi", "5Gi", "20Gi"))
    if dice.chance(traits.extended):
        have[GPU] = dice.pick(("0", "1", "2", "4"))
    if dice.chance(traits.extended / 2):
        have[FPGA] = dice.pick(("1", "2"))
    if dice.chance(traits.extended / 2):
        have[PAGES] = dice.pick(("0", "64Mi", "1Gi"))
    return have


def requests(dice: Dice, traits: Traits) -> dict[str, str]:
    """Return what a container requests; a missing entry is not the same as zero."""
    wanted = {}
    if dice.chance(0.85):
        wanted["cpu"] = dice.pick(_CPU) if dice.chance(0.95) else "0"
    if dice.chance(0.7):
        wanted["memory"] = dice.pick(_MEMORY) if dice.chance(0.95) else "0"
    if dice.chance(traits.ephemeral):
        wanted["ephemeral-storage"] = dice.pick(_STORAGE)
    if dice.chance(traits.extended / 2):
        wanted[GPU] = dice.pick(("0", "1", "2"))
    if dice.chance(traits.extended / 4):
        wanted[FPGA] = "1"
    if dice.chance(traits.extended / 4):
        wanted[PAGES] = dice.pick(("32Mi", "64Mi"))
    return wanted


def resources(dice: Dice, traits: Traits) -> Object:
    """Return requests, with limits where the API server would want or keep them."""
    wanted = requests(dice, traits)
    limits = {name: amount for name, amount in wanted.items() if "/" in name or name == PAGES}
    if "cpu" in wanted and dice.chance(traits.limits):
        limits["cpu"] = "2"
    found: Object = {"requests": wanted} if wanted else {}
    if limits:
        found["limits"] = limits
    return found
