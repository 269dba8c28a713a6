"""Who a pod belongs to: what stays the same when a controller replaces it by another one."""

from typing import Final

from scheduler.model.objects import Pod

__all__ = ["owner"]

#: The label by which a Deployment tells its ReplicaSets apart; their names end with its value.
TEMPLATE_HASH: Final = "pod-template-hash"


def owner(pod: Pod) -> str:
    """Return the controller of a pod, or the pod itself where it has none.

    Returns:
        Kind, namespace and name, joined by slashes. The name of a ReplicaSet is that of what made
        it, without the hash of the template, so that a rollout changes nothing.
    """
    metadata = pod.metadata
    for each in metadata.owner_references:
        if each.controller:
            suffix = f"-{metadata.labels.get(TEMPLATE_HASH, '')}"
            name = each.name
            if each.kind == "ReplicaSet" and len(suffix) > 1:
                name = name.removesuffix(suffix) or name
            return f"{each.kind}/{metadata.namespace}/{name}"
    return f"Pod/{metadata.namespace}/{metadata.name}"
