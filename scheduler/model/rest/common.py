"""What the documents of `/api/v1` have in common.

Field names are in camel case in JSON. Times are RFC 3339 in UTC; durations are in seconds; amounts
of `cpu` are in milli-units, all other amounts in base units (bytes, devices). Fields at their
default are left out. Readers must ignore fields that they do not know: later versions add some.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

__all__ = [
    "SHIFTED_SUM",
    "TIME",
    "CriterionView",
    "Document",
    "Impact",
    "OwnerView",
    "PodView",
    "Status",
]

#: The values of a criterion, if not plain numbers: points in time; and sums in which each victim
#: counts as its priority plus 2**31, as kube-scheduler adds them up.
TIME: Final = "time"
SHIFTED_SUM: Final = "shiftedSum"

#: What a decision does to other pods: nothing; it evicts some; or it violates a disruption budget.
Impact: TypeAlias = Literal["none", "evictions", "budgets"]


class Document(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of all documents and of their parts."""


class OwnerView(Document, frozen=True):
    """The controller of a pod."""

    kind: str
    name: str


class PodView(Document, frozen=True):
    """A pod, as far as the caller may know it.

    If the caller may not `get` the pods of its namespace, `hidden` is true, and only the priority
    is there: namespace, name, uid, owner and requests are empty.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    hidden: bool = False
    owner: OwnerView | None = None
    priority: int = 0
    #: Amounts by resource name.
    requests: Mapping[str, int] = {}


class Status(Document, frozen=True):
    """An error, as the API server of Kubernetes has it."""

    kind: Literal["Status"]
    api_version: Literal["v1"]
    metadata: Mapping[str, Any]
    status: Literal["Failure"]
    message: str
    #: A word for programs, as `Forbidden`.
    reason: str
    #: The HTTP status.
    code: int


class CriterionView(Document, frozen=True):
    """A criterion by which candidates compare, or what decides between equal ones."""

    #: What `values`, `lostBy` and `criterion` call it.
    name: str
    #: Which candidate it prefers, in words.
    meaning: str
    #: The title of its values; empty where candidates have none, as it only breaks ties.
    title: str = ""
    #: The same in one word.
    short_title: str = ""
    #: number, time, or shiftedSum: a sum in which each victim counts as its priority plus 2**31.
    measure: str = "number"
