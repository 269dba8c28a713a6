"""`preemptive-scheduler check-config FILE`: check a configuration file without a cluster.

Prints `FILE: ok` and where the file departs from the default plugins, or every problem with its
line. With `--print`, standard output holds only the effective configuration. Exit codes:
0 valid, 1 invalid, 2 the file could not be read or is neither YAML nor JSON.
"""

import argparse
import sys

from scheduler.cli import configuration
from scheduler.config import load
from scheduler.config.field_errors import ConfigError, UnreadableConfigError
from scheduler.config.plugin_catalogue import Point
from scheduler.config.settings import ProfileSettings, Settings, Weighted
from scheduler.model.releases import AUTO, OLDEST, REFERENCES

__all__ = ["add_parser", "run"]

_VALID = 0
_INVALID = 1
_UNREADABLE = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line; `run` is its `func`."""
    parser = subparsers.add_parser(
        "check-config",
        help="check a configuration file",
        description="Check a KubeSchedulerConfiguration file and print a summary of it. "
        "Exit codes: 0 valid, 1 invalid, 2 the file cannot be read.",
    )
    parser.add_argument("file", metavar="FILE", help="path of the configuration file")
    parser.add_argument(
        "--print",
        action="store_true",
        dest="print_effective",
        help="write the effective configuration as YAML instead of the summary",
    )
    parser.add_argument(
        "--reference",
        choices=tuple(REFERENCES),
        default=OLDEST.name,
        help=f"what `reference: auto` stands for (default: {OLDEST.name})",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Check the file and return the exit code."""
    problems = sys.stderr if args.print_effective else sys.stdout
    try:
        settings = configuration.read(args.file, server=REFERENCES[args.reference])
    except OSError as error:
        print(f"{args.file}: {error.strerror or error}", file=problems)
        return _UNREADABLE
    except ConfigError as error:
        print(error, file=problems)
        return _UNREADABLE if isinstance(error, UnreadableConfigError) else _INVALID
    if args.print_effective:
        print(load.render(settings), end="")
    else:
        print(f"{args.file}: ok")
        for line in _summary(settings):
            print(f"  {line}")
    return _VALID


def _summary(settings: Settings) -> list[str]:
    default = load.defaults(server=settings.reference).profiles[0]
    lines = [line for profile in settings.profiles for line in _profile(profile, default)]
    for plugin, package in configuration.packages(settings).items():
        lines.append(f"plugin {plugin}: package {package}")
    reference = AUTO if settings.follows_server else settings.reference.name
    lines.append(f"reference: {reference}")
    election = settings.leader_election
    namespace = election.resource_namespace or "(own namespace)"
    lease = f"lease {namespace}/{election.resource_name}" if election.leader_elect else "off"
    lines.append(f"leader election: {lease}")
    for extender in settings.extenders:
        ignorable = ", ignorable" if extender.ignorable else ""
        lines.append(f"extender {extender.url_prefix}{ignorable}")
    return lines


def _profile(profile: ProfileSettings, default: ProfileSettings) -> list[str]:
    """Describe a profile by the extension points whose plugins are not the default ones."""
    changed = [
        f"  {point}: {_plugins(profile, point)}"
        for point in Point
        if _plugins(profile, point) != _plugins(default, point)
    ]
    head = f"profile {profile.scheduler_name}"
    return [f"{head}, changed:", *changed] if changed else [f"{head}: default plugins"]


def _plugins(profile: ProfileSettings, point: Point) -> str:
    plugins: tuple[str | Weighted, ...] = getattr(profile, point.attribute)
    return ", ".join(map(_plugin, plugins)) or "none"


def _plugin(plugin: str | Weighted) -> str:
    return f"{plugin.name} {plugin.weight}" if isinstance(plugin, Weighted) else plugin
