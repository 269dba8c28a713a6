"""Which controller a pod belongs to: what stays the same when the pod is replaced by another one.

The text has a bound, whatever a pod claims: names that no API object can have become a digest.
"""

import hashlib
from typing import Final

from scheduler.model.api.objects import Pod

__all__ = ["LONGEST", "bounded", "namespace_of", "owner", "told_to"]

#: The label by which a Deployment tells its ReplicaSets apart; their names end with its value.
TEMPLATE_HASH: Final = "pod-template-hash"

#: No text of an owner, a namespace or a node is longer, in characters; all of them are ASCII.
LONGEST: Final = 400

#: Longest kind, namespace and name of an object.
_KIND, _SPACE, _NAME = 63, 63, 253


def owner(pod: Pod) -> str:
    """Return the controller of a pod, or the pod itself where it has none.

    Only the reference with `controller: true` counts. It is what the pod claims: the API server
    does not check that the owner exists, or that its controller knows the pod.

    Returns:
        Kind, namespace and name, joined by slashes; at most `LONGEST` characters. The name of a
        ReplicaSet is that of what made it, without the hash of the template, so that a rollout
        changes nothing. A kind or name that no object can have is replaced by a digest.
    """
    metadata = pod.metadata
    for each in metadata.owner_references:
        if each.controller:
            name = each.name
            if each.kind == "ReplicaSet":
                suffix = f"-{metadata.labels.get(TEMPLATE_HASH, '')}"
                if len(suffix) > 1:
                    name = name.removesuffix(suffix) or name
            return _joined(each.kind, metadata.namespace, name)
    return _joined("Pod", metadata.namespace, metadata.name)


def namespace_of(owner: str) -> str:
    """Return the namespace of an owner, which is that of its pods; empty if the text has none."""
    _, _, rest = owner.partition("/")
    return rest.partition("/")[0]


def told_to(reader: str, owner: str) -> str:
    """Return what pods of one owner are told of another, in words.

    An owner of another namespace is not named: who reads what a pod is told need not be allowed to
    read that namespace.
    """
    same = namespace_of(reader) == namespace_of(owner)
    return owner.replace("/", " ", 1) if same else "another namespace"


def bounded(text: str) -> str:
    """Return a text that has at most `LONGEST` plain characters; equal for equal texts.

    Plain characters take one byte each in JSON.
    """
    return text if len(text) <= LONGEST and _is_plain(text) else _digest(text)


def _joined(kind: str, namespace: str, name: str) -> str:
    # The API server checks neither kind nor name of a reference, so a pod may claim anything.
    text = f"{kind}/{namespace}/{name}"
    sound = len(namespace) <= _SPACE and 0 < len(kind) <= _KIND and 0 < len(name) <= _NAME
    if sound and text.count("/") == 2 and _is_plain(text):
        return text
    if not (0 < len(kind) <= _KIND and 0 < len(name) <= _NAME and _is_part(kind + name)):
        kind, name = "Unknown", _digest(f"{kind}/{name}")
    if len(namespace) > _SPACE or not _is_part(namespace):
        namespace = _digest(namespace)
    return f"{kind}/{namespace}/{name}"


def _is_part(text: str) -> bool:
    return "/" not in text and _is_plain(text)


def _is_plain(text: str) -> bool:
    """Tell whether a text takes one byte a character in JSON, and has no space."""
    odd = " " in text or '"' in text or "\\" in text
    return text.isascii() and text.isprintable() and not odd


def _digest(text: str) -> str:
    # Not for secrecy: equal texts must stay equal, and others different.
    found = hashlib.sha256(text.encode(errors="surrogatepass"))
    return f"sha256:{found.hexdigest()[:32]}"
