"""What workload objects were expanded to: objects to read, and what is said about them."""

from dataclasses import dataclass, field
from typing import Final

from scheduler.observe.logs.escape import printable, shortened
from scheduler.sim.defaults import Json

__all__ = ["MAX_WARNINGS", "Expanded"]

#: How many warnings are shown.
MAX_WARNINGS: Final = 1000
#: The longest warning, in characters.
_LONGEST: Final = 500


@dataclass(slots=True)
class Expanded:
    """The objects to read, with the pods of workloads among them."""

    #: Pairs of the place of an object and the object.
    documents: list[tuple[str, Json]] = field(default_factory=list)
    #: The object that each pod was made from, as `Deployment/web`, by the key of the pod.
    sources: dict[str, str] = field(default_factory=dict)
    #: What is assumed, and what is not simulated.
    warnings: list[str] = field(default_factory=list)
    #: The namespaces whose existing objects a warning tells about, by its text.
    about: dict[str, frozenset[str]] = field(default_factory=dict)

    #: The warnings, to look them up.
    _said: set[str] = field(default_factory=set)

    def warn(self, text: str) -> str:
        """Add a warning, unless it is there; return it as it is shown: one line."""
        text = shortened(printable(text), _LONGEST)
        if text in self._said or len(self.warnings) > MAX_WARNINGS:
            return text
        if len(self.warnings) == MAX_WARNINGS:
            text = "there are more warnings, which are not shown"
        self._said.add(text)
        self.warnings.append(text)
        return text

    def warn_about(self, text: str, *namespaces: str) -> None:
        """Add a warning that tells what exists in some namespaces."""
        text = self.warn(text)
        self.about[text] = self.about.get(text, frozenset()) | frozenset(namespaces)
