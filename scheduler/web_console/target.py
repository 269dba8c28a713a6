"""Which cluster the console shows, and as whom: for people who have several open."""

import hashlib
import html
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

__all__ = ["COLOURS", "Target"]

#: `style/target.css` has a tone of each for dark and for light pages.
COLOURS: Final = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink")


@dataclass(frozen=True, slots=True)
class Target:
    """What the user has chosen on the command line and in the kubeconfig; empty where unknown."""

    #: The context of the kubeconfig, or the address of the scheduler where one was given.
    name: str = ""
    cluster: str = ""
    user: str = ""
    #: One of `COLOURS`; empty for that of the name, which is the same on each machine.
    colour: str = ""

    @property
    def shown_colour(self) -> str:
        """The colour by which the page is recognized."""
        digest = hashlib.sha256(self.name.encode(errors="replace")).digest()
        return self.colour or COLOURS[digest[0] % len(COLOURS)]

    def within(self, page: bytes, user: str = "", session: str = "key") -> bytes:
        """Return the page with this in its `meta` element.

        Args:
            page: The page, with an empty element.
            user: Who has entered, where that is known.
            session: How: by `key`, by `token`, or through a `proxy`.
        """
        shown = {**asdict(self), "colour": self.shown_colour, "session": session}
        shown["user"] = user or self.user
        content = html.escape(msgspec.json.encode(shown).decode())
        empty = b'<meta name="target" content="">'
        return page.replace(empty, empty.replace(b'""', b'"%s"' % content.encode()))

    def heading(self) -> str:
        """Return the heading of the page that asks for the key, as HTML."""
        name = html.escape(self.name)
        return f'<span class="target target-{self.shown_colour}">{name}</span>' if name else ""
