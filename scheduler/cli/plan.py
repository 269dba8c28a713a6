"""`preemptive-scheduler plan`: what would happen to the pending pods of a cluster in files."""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from scheduler.cli import configuration
from scheduler.config.field_errors import ConfigError
from scheduler.config.settings import Settings
from scheduler.model import times
from scheduler.model.api.device_claims import Allocation, DeviceResult
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.decisions import Attempt, NodeTrace, Placed, Preempting, summary
from scheduler.model.effects import BindClaims
from scheduler.model.releases import REFERENCES

__all__ = ["add_parser", "run", "show_attempt"]

DESCRIPTION = """\
Schedule every pending pod of the given objects, in the order of the scheduling queue, as the
scheduler would in a cluster that consists of exactly these objects. Nothing is written anywhere.
Deployments and other workloads are expanded to the pods that their controllers would create.
Objects with a uid are used as they are, as returned by an API server; objects without one get the
defaults of the API server.
"""
EXAMPLES = """\
examples:
  preemptive-scheduler plan -f nodes.yaml -f pods.yaml
  preemptive-scheduler plan -f cluster.yaml --explain -o yaml
  kubectl get nodes,pods,pdb,ns -A -o json | preemptive-scheduler plan -f - --settle
  preemptive-scheduler plan -f snapshot.json -f deployment.yaml --drain node-7

exit codes: 0 planned, even if pods are unschedulable; 2 the input cannot be read
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "plan",
        help="show what would happen to the pending pods of objects in files",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "-f", "--file", dest="files", action="append", required=True, metavar="FILE",
        help="YAML or JSON with Kubernetes objects; - is standard input; repeatable",
    )  # fmt: skip
    command.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration to use")
    command.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table",
        help="output format (default: table)",
    )  # fmt: skip
    command.add_argument("--explain", action="store_true", help="add the verdict on every node")
    command.add_argument(
        "--settle", action="store_true",
        help="remove terminating pods and try again, until nothing changes",
    )  # fmt: skip
    command.add_argument(
        "--drain", action="append", default=[], metavar="NODE",
        help="make a node unschedulable and delete its pods, which their controllers re-create;"
        " repeatable",
    )  # fmt: skip
    command.add_argument(
        "--scheduler-name", default="", metavar="NAME", help="only pods of this scheduler"
    )
    command.add_argument(
        "--at", default=None, type=_moment, metavar="TIME",
        help="time of the plan, as 2026-01-02T15:04:05Z; preemption policies and devices that were"
        " not ready in time depend on it"
        " (default: now; 1970-01-01T00:00:00Z if there are neither)",
    )  # fmt: skip
    configuration.add_reference(command)
    command.set_defaults(func=run)


def _moment(text: str) -> float:
    """Return a time of the command line, in seconds since the epoch.

    Raises:
        ArgumentTypeError: The text is not a time.
    """
    moment = times.parse(text)
    if moment is None:
        raise argparse.ArgumentTypeError(f"not a time like 2026-01-02T15:04:05Z: {text!r}")
    return moment


def _now(arguments: argparse.Namespace, objects: Any) -> float:
    """Return the time of the plan; policies depend on it, and devices that were never ready."""
    from scheduler.service.clock import Clock

    if arguments.at is not None:
        return float(arguments.at)
    claims = (item for item in objects.devices if isinstance(item, ResourceClaim))
    timed = objects.policies or any(map(_has_timestamp, claims))
    return Clock().now() if timed else 0.0


def _has_timestamp(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and allocation.allocation_timestamp is not None


def run(arguments: argparse.Namespace) -> int:
    """Print what would happen; return the exit code."""
    from scheduler.plugins import registry
    from scheduler.queue.backoff_duration import PodBackoff
    from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions

    prepared = _prepared(arguments)
    if prepared is None:
        return 2
    settings, objects, ask = prepared
    with ask as asked:
        options = WhatIfOptions(
            arguments.scheduler_name,
            explain=arguments.explain,
            ask=asked,
            now=_now(arguments, objects),
        )
        backoff = _backoff(settings, PodBackoff)
        cluster = WhatIfCluster(objects, registry.profiles(settings), backoff, options)
        for node in arguments.drain:
            cluster.drain(node)
        attempts = list(cluster.attempts())
        if arguments.settle:
            attempts += cluster.settle()
    allocated = cluster.allocations
    results = [
        _result(attempt, allocated.get(attempt.pod.uid, {}), explain=arguments.explain)
        for attempt in attempts
    ]
    answer: dict[str, Any] = {"results": results}
    if arguments.settle:
        answer["final"] = cluster.final()
    _print(answer, arguments.output)
    return 0


def _prepared(arguments: argparse.Namespace) -> tuple[Settings, Any, Any] | None:
    """Return the settings, the objects and the context of `_ask`; `None` after an error."""
    from scheduler.kube.errors import ConnectionSettingsError
    from scheduler.sim import manifests

    try:
        settings = configuration.of_command(arguments)
        objects, warnings = _read(arguments, raw=bool(settings.extenders))
        if settings.follows_server and objects.reference:
            settings = configuration.of_command(arguments, REFERENCES[objects.reference])
        ask = _ask(settings, objects)
    except ConnectionSettingsError as error:
        print(f"{arguments.config}: {error}", file=sys.stderr)
        return None
    except (OSError, ConfigError, manifests.ManifestError) as error:
        print(_one_line(error, arguments), file=sys.stderr)
        return None
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return settings, objects, ask


def _read(arguments: argparse.Namespace, *, raw: bool) -> tuple[Any, list[str]]:
    """Return the objects of all files with the pods of workloads, and what was assumed.

    Raises:
        ManifestError: A file cannot be read, its content is invalid, or it lacks a drained node.
    """
    from scheduler.service.clock import Clock
    from scheduler.sim import manifests, workloads
    from scheduler.sim.what_if import cordoned

    loaded = [each for path in arguments.files for each in manifests.load(path)]
    expanded = workloads.expand(loaded, manifests.Manifests(), times.stamp(Clock().now()))
    objects = manifests.Manifests(raw=manifests.RawObjects() if raw else None)
    for _, document in loaded:
        objects.reference = manifests.reference_of(document) or objects.reference
    manifests.collect(expanded.documents, objects)
    objects.nodes = cordoned(objects.nodes, arguments.drain)
    return objects, expanded.warnings


def _ask(settings: Settings, objects: Any) -> Any:
    """Return a context that gives the client of the extenders; it gives `None` without extenders.

    Raises:
        ConnectionSettingsError: The settings of an extender are unusable.
    """
    if objects.raw is None:
        return contextlib.nullcontext()
    from scheduler.sim.extender_client import ExtenderClient

    return ExtenderClient(settings.extenders, objects.raw)


def _backoff(settings: Settings, kind: Any) -> Any:
    return kind(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)


def _one_line(error: Exception, arguments: argparse.Namespace) -> str:
    if isinstance(error, OSError):
        return f"{arguments.config}: {error.strerror or error}"
    return str(error)


def _result(
    attempt: Attempt, allocations: Mapping[str, Allocation], *, explain: bool
) -> dict[str, Any]:
    """Return an attempt as it is printed."""
    decision = attempt.decision
    preempting = decision if isinstance(decision, Preempting) else None
    word, node, message = summary(decision)
    result: dict[str, Any] = {
        "pod": attempt.pod.key,
        "decision": word,
        "node": node or None,
        "victims": [] if preempting is None else [victim.key for victim in preempting.victims],
        "pdbViolations": 0 if preempting is None else preempting.violations,
        "message": message,
    }
    result |= _devices(attempt, allocations)
    if explain:
        result["nodes"] = [_explained(trace) for trace in attempt.trace]
    return result


def _devices(attempt: Attempt, allocations: Mapping[str, Allocation]) -> dict[str, Any]:
    """Return what the claims of a placed pod have; nothing if it has no claims."""
    if not isinstance(attempt.decision, Placed) or not allocations:
        return {}
    claims = {
        key: [_device(result) for result in allocation.devices.results]
        for key, allocation in allocations.items()
    }
    mappings = [
        {
            "containerName": each.container_name,
            "resourceName": each.resource_name,
            "requestName": each.request_name,
        }
        for effect in attempt.effects
        if isinstance(effect, BindClaims)
        for write in effect.claims
        for each in write.mappings
    ]
    return {"claims": claims, **({"requestMappings": mappings} if mappings else {})}


def _device(result: DeviceResult) -> dict[str, Any]:
    """Return one allocated device as it is printed."""
    shown: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin_access:
        shown["adminAccess"] = True
    if result.consumed_capacity:
        shown["consumedCapacity"] = dict(result.consumed_capacity)
    return shown


def _explained(trace: NodeTrace) -> dict[str, Any]:
    """Return the verdict on a node; `vetoes` only if there are any."""
    explained = {
        "name": trace.name,
        "filter": trace.rejection,
        "scores": trace.scores,
        "total": trace.total,
    }
    return {**explained, "vetoes": list(trace.vetoes)} if trace.vetoes else explained


def show_attempt(attempt: Attempt, output: str) -> None:
    """Print one attempt with the verdict on every node; `replay --explain` uses it."""
    _print({"results": [_result(attempt, {}, explain=True)]}, output)


def _print(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        print(json.dumps(answer, indent=2))
    elif output == "yaml":
        import yaml

        print(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), end="")
    else:
        from scheduler.cli import plan_table

        plan_table.show(answer["results"], answer.get("final"))
