"""The scenarios of all files, each as one mapping: those with `cases` are one for each case."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.scenarios.notation import OURS

__all__ = ["OTHERWISE", "Scenario", "config_of", "files", "scenarios_of"]

Scenario = dict[str, Any]

FOLDER: Final = Path(__file__).parent
KEYS: Final = {
    "id", "title", "source", "nodes", "existing", "incoming", "budgets", "namespaces", "claims",
    "volumes", "classes", "csi_nodes", "csi_drivers", "capacities", "objects", "config",
    "settle", "expect", "ends", "evicted", "per_node", "apart", "not_decided", "expect_v1_37",
}  # fmt: skip
#: What a scenario expects of v1.37, where it differs.
OTHERWISE: Final = "expect_v1_37"
#: Short names where there is one pod, `p`: the pod, and what is decided about it.
_SHORT: Final = {"pod": "incoming", "then": "expect", "then_v1_37": OTHERWISE}
_HEAD: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}


def files() -> list[Path]:
    """Return the files with scenarios."""
    return sorted(FOLDER.glob("*.yaml"))


def scenarios_of(path: Path) -> dict[str, Scenario]:
    """Return the scenarios of a file by id.

    Raises:
        ValueError: A scenario has a key that means nothing, or an id that another one has.
    """
    found: dict[str, Scenario] = {}
    for given in yaml.safe_load(path.read_text(encoding="utf-8")):
        for scenario in _cases(given):
            name = scenario["id"]
            missing = {"title", "source", "expect"} - set(scenario)
            if name in found or missing or set(scenario) - KEYS:
                raise ValueError(f"{name}: {sorted(missing or set(scenario) - KEYS)}")
            found[name] = scenario
    return found


def _cases(given: Scenario) -> Iterator[Scenario]:
    """Yield a scenario, or one for each of its cases: what they share, and what is their own."""
    base = _spelled({key: value for key, value in given.items() if key != "cases"})
    if "cases" not in given:
        yield base
    for title, case in given.get("cases", {}).items():
        made = {**base, "id": f"{base['id']}: {title}"}
        for key, value in _spelled(case).items():
            both = isinstance(value, dict) and isinstance(made.get(key), dict)
            made[key] = {**made[key], **value} if both else value
        yield made


def _spelled(given: Scenario) -> Scenario:
    return {
        _SHORT.get(key, key): {"p": value} if key in _SHORT else value
        for key, value in given.items()
    }


def config_of(scenario: Scenario) -> dict[str, Any] | None:
    """Return the configuration of a scenario; `None` where it has none of its own."""
    config = scenario.get("config")
    if config is None:
        return None
    return {**_HEAD, "profiles": [{"schedulerName": OURS, **config}]}
