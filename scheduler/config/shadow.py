"""The settings of shadow mode: profiles that decide about the pods of other schedulers."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from scheduler.config.settings import OUR_NAME, Settings

__all__ = ["LEASE", "NamesError", "shadowing"]

#: The lease, unless another one is configured: a scheduler that writes must not wait for this one.
LEASE: Final = f"{OUR_NAME}-shadow"


class NamesError(ValueError):
    """The profiles do not say how the pods of a scheduler are decided."""


def shadowing(settings: Settings, schedulers: Sequence[str]) -> Settings:
    """Return settings whose profiles decide about the pods of some schedulers.

    Args:
        settings: The settings as configured. A single profile is used for all schedulers;
            otherwise each scheduler needs a profile of its name.
        schedulers: `spec.schedulerName` of the pods.

    Raises:
        NamesError: A scheduler has no profile, or there is no name.
    """
    names = dict.fromkeys(filter(None, schedulers))
    if not names:
        raise NamesError("--shadow: name at least one scheduler, as default-scheduler")
    only = settings.profiles[0] if len(settings.profiles) == 1 else None
    profiles = []
    for name in names:
        profile = only or settings.profile(name)
        if profile is None:
            known = ", ".join(each.scheduler_name for each in settings.profiles)
            raise NamesError(
                f"--shadow: there are several profiles and none is named {name!r}: {known};"
                f" name one of them {name!r}, or configure a single profile"
            )
        profiles.append(dataclasses.replace(profile, scheduler_name=name))
    election = settings.leader_election
    if election.resource_name == OUR_NAME:
        election = dataclasses.replace(election, resource_name=LEASE)
    return dataclasses.replace(settings, profiles=tuple(profiles), leader_election=election)
