"""Reads the configuration of a command, with plugins from other packages of the environment."""

from scheduler.config import load
from scheduler.config.load import LeaderElectionFlags
from scheduler.config.settings import Settings

__all__ = ["packages", "read"]

_NO_ELECTION = LeaderElectionFlags()


def read(path: str, *, leader_election: LeaderElectionFlags = _NO_ELECTION) -> Settings:
    """Return the settings in a file, checked also by the out-of-tree plugins that it enables.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file is invalid, or a package of the environment is.
    """
    from scheduler.plugins import registry
    from scheduler.plugins.external import entry_points

    settings = load.read(
        path,
        extra_plugins=entry_points.points(entry_points.discover()),
        leader_election=leader_election,
    )
    if any(map(entry_points.enabled, settings.profiles)):
        # Only the plugins themselves can check their settings.
        registry.profiles(settings)
    return settings


def packages(settings: Settings) -> dict[str, str]:
    """Return the packages of the enabled out-of-tree plugins, by plugin.

    Raises:
        ConfigError: A package of the environment is invalid.
    """
    from scheduler.plugins.external import entry_points

    names = sorted(set().union(*map(entry_points.enabled, settings.profiles)))
    found = entry_points.discover() if names else {}
    return {name: found[name].package for name in names}
