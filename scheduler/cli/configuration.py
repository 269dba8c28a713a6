"""Reads the configuration of a command, with plugins from other packages of the environment."""

import argparse
from collections.abc import Callable

from scheduler.config import load
from scheduler.config.load import LeaderElectionFlags
from scheduler.config.settings import Settings
from scheduler.model.releases import OLDEST, REFERENCES, Reference

__all__ = ["add_reference", "of_command", "packages", "read", "reader"]

_NO_ELECTION = LeaderElectionFlags()


def add_reference(command: argparse.ArgumentParser, otherwise: Reference = OLDEST) -> None:
    """Add the flag `--reference` for commands that do not connect to an API server."""
    command.add_argument(
        "--reference", choices=tuple(REFERENCES),
        help="release of kube-scheduler whose decisions are reproduced (default: the one in the"
        f" configuration, else that of the cluster if the input names it, else {otherwise.name})",
    )  # fmt: skip


def of_command(arguments: argparse.Namespace, server: Reference = OLDEST) -> Settings:
    """Return the settings of a command with the flags `--config` and `--reference`.

    Args:
        arguments: Of the command line.
        server: The release of the API server that the input comes from.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file is invalid, or a package of the environment is.
    """
    reference = arguments.reference
    if arguments.config:
        return read(arguments.config, server=server, reference=reference)
    return load.defaults(server=server, reference=reference)


def read(
    path: str,
    *,
    leader_election: LeaderElectionFlags = _NO_ELECTION,
    server: Reference = OLDEST,
    reference: str | None = None,
) -> Settings:
    """Return the settings in a file, checked also by the out-of-tree plugins that it enables.

    Args:
        path: The file.
        leader_election: Flags that count more than the file.
        server: The release that counts where the file names none.
        reference: The setting that counts more than that in the file; `None` for none.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file is invalid, or a package of the environment is.
    """
    return reader(path, leader_election=leader_election, reference=reference)(server)


def reader(
    path: str,
    *,
    leader_election: LeaderElectionFlags = _NO_ELECTION,
    reference: str | None = None,
) -> Callable[[Reference], Settings]:
    """Read a file once; return what `read` returns, by the release that counts by default.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file is not UTF-8.
    """
    from scheduler.plugins import registry
    from scheduler.plugins.external import entry_points

    text = load.read_text(path)

    def settings_as(server: Reference) -> Settings:
        settings = load.parse(
            text,
            source=path,
            extra_plugins=entry_points.points(entry_points.discover()),
            leader_election=leader_election,
            server=server,
            reference=reference,
        )
        if any(map(entry_points.enabled, settings.profiles)):
            # Only the plugins themselves can check their settings.
            registry.profiles(settings)
        return settings

    return settings_as


def packages(settings: Settings) -> dict[str, str]:
    """Return the packages of the enabled out-of-tree plugins, by plugin.

    Raises:
        ConfigError: A package of the environment is invalid.
    """
    from scheduler.plugins.external import entry_points

    names = sorted(set().union(*map(entry_points.enabled, settings.profiles)))
    found = entry_points.discover() if names else {}
    return {name: found[name].package for name in names}
