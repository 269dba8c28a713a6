"""Which controller a pod belongs to: what stays the same when the pod is replaced by another one.

The text has a bound, whatever a pod claims: names that no API object can have become a digest.
"""

import hashlib
import re
from typing import Final

from scheduler.model.objects import Pod

__all__ = ["LONGEST", "bounded", "namespace_of", "owner"]

#: The label by which a Deployment tells its ReplicaSets apart; their names end with its value.
TEMPLATE_HASH: Final = "pod-template-hash"

#: No text of an owner, a namespace or a node is longer, in characters; all of them are ASCII.
LONGEST: Final = 400

#: The API server checks neither kind nor name of an owner reference, so a pod may claim anything.
_SOUND: Final = re.compile(r"[A-Za-z0-9]{1,63}/[!#-.0-\[\]-~]{0,63}/[A-Za-z0-9._:-]{1,253}")
_PLAIN: Final = re.compile(r"[!#-\[\]-~]*")


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


def bounded(text: str) -> str:
    """Return a text that has at most `LONGEST` plain characters; equal for equal texts.

    Plain characters take one byte each in JSON.
    """
    if len(text) <= LONGEST and _PLAIN.fullmatch(text):
        return text
    return _digest(text)


def _joined(kind: str, namespace: str, name: str) -> str:
    text = f"{kind}/{namespace}/{name}"
    if _SOUND.fullmatch(text):
        return text
    if not _SOUND.fullmatch(f"{kind}//{name}"):
        kind, name = "Unknown", _digest(f"{kind}/{name}")
    if not _SOUND.fullmatch(f"{kind}/{namespace}/{name}"):
        namespace = _digest(namespace)
    return f"{kind}/{namespace}/{name}"


def _digest(text: str) -> str:
    found = hashlib.sha256(text.encode(errors="surrogatepass"))
    return f"sha256:{found.hexdigest()[:32]}"
