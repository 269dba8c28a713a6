"""The owner of a pod: its controller, which stays the same when the pod is replaced.

Budgets and limits count by `owner`. A rule that lets pods evict each other asks `share_controller`,
which is stricter: where owners are wrongly taken for one, a budget refuses too much, but such a
rule would allow too much.

The length of the text is limited, whatever a pod's references contain: names that no API object can
have are replaced by a digest.
"""

import hashlib
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.base import OwnerReference

__all__ = [
    "MAX_LENGTH",
    "bounded",
    "controller",
    "namespace_of",
    "owner",
    "share_controller",
    "shown_to",
]

#: The label by which a Deployment distinguishes its ReplicaSets; their names end with its value.
TEMPLATE_HASH: Final = "pod-template-hash"

#: The maximum length of the text of an owner, a namespace or a node, in ASCII characters.
MAX_LENGTH: Final = 400

#: The maximum length of the kind, namespace and name of an object.
_KIND, _SPACE, _NAME = 63, 63, 253


def controller(pod: Pod) -> OwnerReference | None:
    """Return the reference to the controller of a pod; `None` if it has none."""
    references = pod.metadata.owner_references
    return next((reference for reference in references if reference.controller), None)


def share_controller(pod: Pod, other: Pod) -> bool:
    """Return whether two pods have the same controller: in one namespace, with one uid.

    Neither reference is verified, but whoever writes one could create such a pod in that namespace.
    """
    if pod.metadata.namespace != other.metadata.namespace:
        return False
    first, second = controller(pod), controller(other)
    return first is not None and second is not None and first.uid == second.uid != ""


def owner(pod: Pod) -> str:
    """Return the controller of a pod, or the pod itself if it has none.

    Only the reference with `controller: true` counts. It is not verified: the API server does not
    check that the owner exists, or that its controller knows the pod.

    Returns:
        Kind, namespace and name, joined by slashes; at most `MAX_LENGTH` characters. The name of a
        ReplicaSet is given without the hash of the template, so that a rollout changes nothing. A
        kind or name that no object can have is replaced by a digest.
    """
    metadata, reference = pod.metadata, controller(pod)
    if reference is None:
        return _joined("Pod", metadata.namespace, metadata.name)
    name = reference.name
    if reference.kind == "ReplicaSet":
        suffix = f"-{metadata.labels.get(TEMPLATE_HASH, '')}"
        if len(suffix) > 1:
            name = name.removesuffix(suffix) or name
    return _joined(reference.kind, metadata.namespace, name)


def namespace_of(owner: str) -> str:
    """Return the namespace of an owner, which is that of its pods; empty if the text has none."""
    _, _, rest = owner.partition("/")
    return rest.partition("/")[0]


def shown_to(reader: str, owner: str) -> str:
    """Return the text by which messages to pods of one owner name another owner.

    An owner of another namespace is not named: readers of the messages may lack permission to read
    that namespace.
    """
    same = namespace_of(reader) == namespace_of(owner)
    return owner.replace("/", " ", 1) if same else "another namespace"


def bounded(text: str) -> str:
    """Return a text with at most `MAX_LENGTH` plain characters: the given one, or its digest.

    Plain characters take one byte each in JSON.
    """
    return text if len(text) <= MAX_LENGTH and _is_plain(text) else _digest(text)


def _joined(kind: str, namespace: str, name: str) -> str:
    # The API server validates neither kind nor name of a reference, so they may be any text.
    text = f"{kind}/{namespace}/{name}"
    short = len(namespace) <= _SPACE and 0 < len(kind) <= _KIND and 0 < len(name) <= _NAME
    if short and text.count("/") == 2 and _is_plain(text):
        return text
    if not (0 < len(kind) <= _KIND and 0 < len(name) <= _NAME and _is_part(kind + name)):
        kind, name = "Unknown", _digest(f"{kind}/{name}")
    if len(namespace) > _SPACE or not _is_part(namespace):
        namespace = _digest(namespace)
    return f"{kind}/{namespace}/{name}"


def _is_part(text: str) -> bool:
    return "/" not in text and _is_plain(text)


def _is_plain(text: str) -> bool:
    """Return whether a text takes one byte per character in JSON, and has no space."""
    escaped = " " in text or '"' in text or "\\" in text
    return text.isascii() and text.isprintable() and not escaped


def _digest(text: str) -> str:
    # Not for secrecy: equal texts must have equal digests, and different texts different ones.
    digest = hashlib.sha256(text.encode(errors="surrogatepass"))
    return f"sha256:{digest.hexdigest()[:32]}"
