"""`preemptive-scheduler plan`: what would happen to the pending pods of a cluster in files."""

import argparse
import contextlib
import sys
from typing import Any

import msgspec

from scheduler.cli import configuration
from scheduler.config.field_errors import ConfigError
from scheduler.config.settings import Settings
from scheduler.kubectl import plan_input, text
from scheduler.kubectl.errors import CommandError
from scheduler.model import times
from scheduler.model.decisions import Attempt, Preempting, summary
from scheduler.model.releases import NEWEST, REFERENCES

__all__ = ["add_parser", "run", "show_attempt"]

DESCRIPTION = """\
Schedule every pending pod of the given objects, in the order of the scheduling queue, as the
scheduler would in a cluster that consists of exactly these objects. Nothing is written anywhere.
Deployments and other workloads are expanded to the pods that their controllers would create.
Objects with a uid are used as they are, as returned by an API server; others get the defaults of
the API server, and unknown or missing fields in them are errors.
"""
EXAMPLES = """\
examples:
  preemptive-scheduler plan -f nodes.yaml -f pods.yaml
  preemptive-scheduler plan -f cluster.yaml --explain -o yaml
  kubectl get nodes,pods,pdb,ns -A -o json | preemptive-scheduler plan -f -
  preemptive-scheduler plan -f snapshot.json -f deployment.yaml --drain node-7

"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "plan",
        help="show what would happen to the pending pods of objects in files",
        description=DESCRIPTION,
        epilog=EXAMPLES + plan_input.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan_input.add_flags(command)
    command.add_argument(
        "-n", "--namespace", default="default", metavar="NAME",
        help="namespace of objects without one (default: default)",
    )  # fmt: skip
    command.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration to use")
    command.add_argument(
        "--at", default=None, type=_moment, metavar="TIME",
        help="time of the plan, as 2026-01-02T15:04:05Z; preemption policies and devices that were"
        " not ready in time depend on it (default: now)",
    )  # fmt: skip
    configuration.add_reference(command, NEWEST)
    command.set_defaults(func=run)


def _moment(given: str) -> float:
    """Return a time of the command line, in seconds since the epoch.

    Raises:
        ArgumentTypeError: The text is not a time.
    """
    moment = times.parse(given)
    if moment is None:
        raise argparse.ArgumentTypeError(f"not a time like 2026-01-02T15:04:05Z: {given!r}")
    return moment


def run(arguments: argparse.Namespace) -> int:
    """Print what would happen; return the exit code."""
    from scheduler.kube.errors import ConnectionSettingsError
    from scheduler.sim.manifests import ManifestError

    try:
        return _planned(arguments)
    except CommandError as error:
        problem = "\n".join(filter(None, (str(error), error.advice)))
    except ConnectionSettingsError as error:
        problem = f"{arguments.config}: {error}"
    except OSError as error:
        problem = f"{arguments.config}: {error.strerror or error}"
    except (ConfigError, ManifestError) as error:
        problem = str(error)
    print(f"error: {problem}", file=sys.stderr)
    return 1


def _planned(arguments: argparse.Namespace) -> int:
    from scheduler.kubectl.commands import plan_report
    from scheduler.kubectl.output import Output
    from scheduler.service.clock import Clock
    from scheduler.sim.file_plan import FilePlan

    loaded = plan_input.loaded(arguments)
    now = Clock().now() if arguments.at is None else float(arguments.at)
    settings = configuration.of_command(arguments, NEWEST)
    request = plan_input.request(arguments, arguments.namespace)
    plan = FilePlan.read(loaded, request, now, raw=bool(settings.extenders))
    if settings.follows_server and plan.objects.reference:
        settings = configuration.of_command(arguments, REFERENCES[plan.objects.reference])
    elif settings.follows_server and not arguments.reference:
        print(
            f"note: decided as kube-scheduler {NEWEST.name}, the newest release;"
            " --reference names another",
            file=sys.stderr,
        )
    with _extenders(settings, plan.objects.raw) as ask:
        answer = plan.decided(settings, now, ask)
    out = Output.standard()
    if arguments.output in {"json", "yaml"}:
        out.document(msgspec.to_builtins(answer), arguments.output)
    else:
        plan_report.show(
            out, answer, wide=arguments.output == "wide", explain=arguments.explain,
            diff=arguments.diff,
        )  # fmt: skip
    for warning in answer.warnings:
        print(f"warning: {text.clean(warning)}", file=sys.stderr)
    return plan_input.exit_code(answer, arguments.fail_on)


def _extenders(settings: Settings, raw: Any) -> Any:
    """Return a context that gives the client of the extenders; it gives `None` without extenders.

    Raises:
        ConnectionSettingsError: The settings of an extender are unusable.
    """
    if raw is None:
        return contextlib.nullcontext()
    from scheduler.sim.extender_client import ExtenderClient

    return ExtenderClient(settings.extenders, raw)


def show_attempt(attempt: Attempt, output: str) -> None:
    """Print one attempt with the result of every node; `replay --explain` uses it."""
    from scheduler.kubectl.commands import plan_report
    from scheduler.kubectl.output import Output
    from scheduler.model.rest.common import PodView
    from scheduler.model.rest.preemptions import VictimView
    from scheduler.model.rest.what_if import SimulatedPod
    from scheduler.sim.what_if_answer import node_results

    decision = attempt.decision
    victims = decision.victims if isinstance(decision, Preempting) else ()
    word, node, message = summary(decision)
    shown = SimulatedPod(
        PodView(
            attempt.pod.namespace, attempt.pod.name, attempt.pod.uid, priority=attempt.priority
        ),
        word,
        node=node,
        message=message,
        victims=tuple(
            VictimView(
                PodView(each.namespace, each.name, each.uid),
                violates_pdb=each.uid in attempt.violating,
            )
            for each in victims
        ),
        pdb_violations=decision.violations if isinstance(decision, Preempting) else 0,
        nodes=node_results(attempt),
    )
    out = Output.standard()
    if output in {"json", "yaml"}:
        out.document(msgspec.to_builtins(shown), output)
    else:
        plan_report.rows(out, (shown,))
        if victims:
            out.paragraph(f"Victims: {', '.join(each.key for each in victims)}")
        out.line()
        plan_report.nodes(out, shown.nodes)
