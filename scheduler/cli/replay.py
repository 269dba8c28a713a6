"""`preemptive-scheduler replay`: decide a recording again."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli import configuration, replay_counterfactual
from scheduler.cli.replay_counterfactual import said, show
from scheduler.config.field_errors import ConfigError
from scheduler.model import times
from scheduler.model.releases import OLDEST, REFERENCES

if TYPE_CHECKING:
    from scheduler.core.machine import Machine
    from scheduler.model.policies import PreemptionPolicy
    from scheduler.observe.recorder.header import SegmentHeader
    from scheduler.sim.replay import Replayed

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Repeat the decisions of a recording of the flight recorder, and compare each one with the recorded
decision. With --policy, or with a configuration that differs from the recorded one, show what would
have happened: up to the first different decision both histories are the same; from there on the
result is simulated.
"""
EXAMPLES = """\
examples:
  preemptive-scheduler replay incident.rec
  preemptive-scheduler replay incident.rec --explain default/web-0 --at 2026-01-02T15:04:05Z
  preemptive-scheduler replay incident.rec --policy stricter.yaml

exit codes: 0 all decisions are the same; 1 some differ; 2 the recording cannot be read
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "replay",
        help="repeat the decisions of a recording and compare them",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    command.add_argument("file", metavar="FILE", help="a recording, or the folder of the recorder")
    command.add_argument(
        "--config", metavar="FILE",
        help="KubeSchedulerConfiguration of the recorded scheduler, or another one",
    )  # fmt: skip
    command.add_argument(
        "--policy", dest="policies", action="append", default=[], metavar="FILE",
        help="PreemptionPolicies that replace recorded ones of the same names; repeatable",
    )  # fmt: skip
    configuration.add_reference(command)
    command.add_argument(
        "--explain", metavar="POD", help="explain the last decision for NAMESPACE/NAME"
    )
    command.add_argument(
        "--at", type=_moment, metavar="TIME",
        help="with --explain: the last decision until TIME, as 2026-01-02T15:04:05Z",
    )  # fmt: skip
    command.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table",
        help="with --explain: output format (default: table)",
    )  # fmt: skip
    command.set_defaults(func=run)


def _moment(text: str) -> float:
    moment = times.parse(text)
    if moment is None:
        raise argparse.ArgumentTypeError(f"not a time like 2026-01-02T15:04:05Z: {text!r}")
    return moment


def run(arguments: argparse.Namespace) -> int:
    """Print the decisions that differ, or explain one; return the exit code."""
    from scheduler.observe.recorder.reading import RecordingError
    from scheduler.sim.manifests import ManifestError

    if arguments.at is not None and not arguments.explain:
        print("--at needs --explain", file=sys.stderr)
        return 2
    if arguments.explain and "/" not in arguments.explain:
        show(f"--explain {arguments.explain}: name the pod as NAMESPACE/NAME", is_problem=True)
        return 2
    try:
        if arguments.explain:
            return _explain(arguments)
        if arguments.policies or _has_other_settings(arguments):
            return replay_counterfactual.run(
                Path(arguments.file),
                _Machines(arguments, counterfactual=True),
                _policies(arguments.policies),
                restarted=_has_other_settings(arguments),
            )
        return _compare(arguments)
    except BrokenPipeError:
        raise  # of standard output, not of the recording
    except OSError as error:
        show(f"{error.filename or arguments.file}: {error.strerror or error}", is_problem=True)
    except (ConfigError, ManifestError, RecordingError) as error:
        show(str(error), is_problem=True)
    return 2


def _policies(files: list[str]) -> "list[PreemptionPolicy]":
    """Return the policies of some files.

    Raises:
        ManifestError: A file cannot be read, or has something else.
    """
    from scheduler.sim import manifests

    if not files:
        return []
    read = manifests.read(files)
    if not read.policies:
        raise manifests.ManifestError(f"{files[0]}: no PreemptionPolicy")
    return read.policies


def _has_other_settings(arguments: argparse.Namespace) -> bool:
    """Return whether another configuration than the recorded one is given.

    Raises:
        ConfigError: The configuration is invalid.
        RecordingError: The recording cannot be read.
        OSError: A file cannot be read.
    """
    from scheduler.observe.recorder.header import settings_digest
    from scheduler.observe.recorder.reading import SegmentStart, recording

    if not (arguments.config or arguments.reference):
        return False
    parts = recording(Path(arguments.file))
    start = next((part for part in parts if isinstance(part, SegmentStart)), None)
    if start is None:
        return False
    reference = REFERENCES.get(start.header.reference, OLDEST)
    settings = configuration.of_command(arguments, reference)
    return settings_digest(settings) != start.header.settings


class _Machines:
    """Makes machines with the settings of the command line, and warns where they do not fit."""

    def __init__(self, arguments: argparse.Namespace, *, counterfactual: bool = False) -> None:
        self._arguments = arguments
        self._counterfactual = counterfactual
        self._warned: set[str] = set()

    def __call__(self, header: "SegmentHeader") -> "Machine":
        """Return a fresh machine for a segment.

        Raises:
            ConfigError: The configuration is invalid.
        """
        from scheduler import __version__
        from scheduler.core.machine import Machine
        from scheduler.observe.recorder.header import settings_digest
        from scheduler.observe.recorder.reading import RecordingError
        from scheduler.plugins import registry
        from scheduler.queue.backoff_duration import PodBackoff

        reference = REFERENCES.get(header.reference, OLDEST)
        settings = configuration.of_command(self._arguments, reference)
        if header.scheduler != __version__:
            self._warn(f"recorded by version {header.scheduler}; this is {__version__}")
        if settings_digest(settings) != header.settings and not self._counterfactual:
            self._warn("recorded with another configuration: give it with --config")
        if settings.extenders and self._counterfactual:
            raise RecordingError(
                "a configuration with extenders cannot be replayed with --policy or another "
                "configuration: the recording has only the responses that the extenders returned"
            )
        backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
        return Machine(registry.profiles(settings), backoff, evict_only=header.evict_only)

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            show(f"warning: {text}", is_problem=True)


def _compare(arguments: argparse.Namespace) -> int:
    """Print each decision that differs; return the exit code."""
    from scheduler.observe.recorder.reading import Notice, recording
    from scheduler.sim.replay import Replayer

    total = different = uncertain = missing = 0
    for part in Replayer(recording(Path(arguments.file)), _Machines(arguments)).run():
        if isinstance(part, Notice):
            show(f"warning: {part.place}: {part.text}", is_problem=True)
            missing += 1
            continue
        total += 1
        if part.now != part.then:
            different += 1
            uncertain += bool(part.lacks)
            show(_difference(part))
    tail = f", {uncertain} of them not certain" if uncertain else ""
    print(f"{total} decisions, {different} different{tail}")
    if missing and not total:
        show(f"{arguments.file}: no decision can be read", is_problem=True)
        return 2
    return 1 if different else 0


def _difference(part: "Replayed") -> str:
    text = (
        f"{times.stamp(part.at)} {part.then.pod}: recorded {said(part.then, part.then.pod)}; "
        f"replayed {said(part.now, part.then.pod)} ({part.place})"
    )
    return f"{text}; not certain: the segment lacks {', '.join(part.lacks)}" if part.lacks else text


def _explain(arguments: argparse.Namespace) -> int:
    """Explain a decision as `plan --explain` does; return the exit code."""
    from scheduler.cli import plan
    from scheduler.observe.recorder.reading import Entry, recording
    from scheduler.sim.replay import Replayed, Replayer

    path = Path(arguments.file)
    decisions = (
        part for part in recording(path) if isinstance(part, Entry) and _is_decision(part.line)
    )
    number = _last(decisions, arguments.explain, arguments.at)
    if number is None:
        until = "" if arguments.at is None else f" until {times.stamp(arguments.at)}"
        text = f"{path}: no decision is recorded for {arguments.explain}{until}"
        show(text, is_problem=True)
        return 2
    replayer = Replayer(recording(path), _Machines(arguments), explain=lambda n: n == number)
    seen = 0
    for part in replayer.run():
        if not isinstance(part, Replayed):
            continue
        if seen == number:
            return _show(part, plan, arguments.output)
        seen += 1
    return 2


def _show(part: "Replayed", plan: Any, output: str) -> int:
    print(f"decided at {times.stamp(part.at)}", file=sys.stderr)
    if part.now != part.then:
        show(f"warning: {_difference(part)}", is_problem=True)
    if part.attempt is not None:
        plan.show_attempt(part.attempt, output)
    return 1 if part.now != part.then else 0


def _is_decision(line: object) -> bool:
    from scheduler.model.recording_lines import Decided

    return isinstance(line, Decided)


def _last(decisions: Iterable[Any], pod: str, until: float | None) -> int | None:
    """Return the number of the last decision for a pod until a moment; `None` without any."""
    found = None
    for number, entry in enumerate(decisions):
        if until is not None and entry.at > until:
            break
        if entry.line.pod == pod:
            found = number
    return found
