"""The first line of a segment, and the line that says that the next one continues it."""

import dataclasses
import hashlib
from typing import Annotated, Final

import msgspec

from scheduler.config import load
from scheduler.config.settings import ClientConnection, LeaderElection, Settings
from scheduler.model.times import LATEST, Seconds

__all__ = ["CONTINUED", "SegmentHeader", "settings_digest"]

#: The last line of a segment whose events go on in the next one without a gap.
CONTINUED: Final = b'"continued"'


class SegmentHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a segment is about. Its events follow, after a snapshot unless it is fresh."""

    #: When it begins.
    at: Annotated[Seconds, msgspec.Meta(ge=0.0, le=LATEST)]
    #: Version of the scheduler.
    scheduler: str
    #: The release of kube-scheduler whose decisions were reproduced, as in the setting.
    reference: str
    #: Of the process, and of the segment in it.
    process: str
    number: int
    #: Digest of the settings that decide.
    settings: str
    #: Whether the machine knew nothing yet, so that there is no snapshot.
    fresh: bool = False
    #: What the snapshot lacks: decisions from here on may differ because of it.
    lacks: tuple[str, ...] = ()
    #: Whether all victims are evicted through the eviction API (`--evict-only`).
    evict_only: bool = False


def settings_digest(settings: Settings) -> str:
    """Return a short text that is equal for settings with the same decisions.

    How the scheduler connects and elects leaves no trace in it. Those settings may be secret, and
    no decision depends on them.
    """
    extenders = tuple(
        dataclasses.replace(each, url_prefix="", tls=None, enable_https=False)
        for each in settings.extenders
    )
    deciding = dataclasses.replace(
        settings,
        # Which release counts is a field of the header.
        follows_server=True,
        leader_election=LeaderElection(),
        client_connection=ClientConnection(),
        extenders=extenders,
    )
    return hashlib.blake2b(load.render(deciding).encode(), digest_size=8).hexdigest()
