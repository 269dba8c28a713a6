"""`preemptive-scheduler replay`: repeat the decisions of a capture."""

import argparse
import sys
from pathlib import Path

from scheduler.cli import configuration
from scheduler.config.field_errors import ConfigError

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Replay a capture that `run --capture FILE` wrote, and compare every decision with the recorded one.
Use the configuration that the recorded scheduler had.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "replay",
        help="repeat the decisions of a capture and compare them",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 all decisions are the same; 1 some differ; 2 a file cannot be read",
    )
    command.add_argument("file", metavar="FILE", help="path of the capture")
    command.add_argument(
        "--config", metavar="FILE", help="KubeSchedulerConfiguration of the recorded scheduler"
    )
    configuration.add_reference(command)
    command.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the decisions that differ; return the exit code."""
    from scheduler.model.capture_codec import WireError
    from scheduler.plugins import registry
    from scheduler.queue.backoff_duration import PodBackoff
    from scheduler.sim.replay import followed, replay

    total = different = 0
    try:
        with Path(arguments.file).open("rb") as lines:
            settings = configuration.of_command(arguments, followed(lines.readline()))
            backoff = PodBackoff(
                settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
            )
            lines.seek(0)
            for decision in replay(lines, registry.profiles(settings), backoff):
                total += 1
                if decision.now != decision.then:
                    different += 1
                    place = f"{arguments.file}:{decision.line}"
                    print(f"{place}: recorded {decision.then}, replayed {decision.now}")
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (ConfigError, WireError) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 2
    print(f"{total} decisions, {different} different")
    return 1 if different else 0
