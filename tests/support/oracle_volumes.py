"""The four volume rules in their plainest form: one node, one pod, one volume after the other.

Slow and obvious on purpose; the real rules are compared with it. Nothing is shared with them but
the objects and the selectors.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.api import quantity, selectors
from scheduler.model.api.objects import LabelSelector, Node, NodeSelector, Pod, Volume
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    VolumeAttachment,
)

Reasons = tuple[str, ...]
DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
FULL = "node(s) exceed max volume count"
ZONE = "node(s) had no available volume zone"
UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_SUCH = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


@dataclass(frozen=True)
class Refused:
    """The pod is refused before any node is looked at."""

    reason: str


@dataclass
class World:
    """A cluster, as lists."""

    nodes: list[Node]
    #: Pods by the name of their node.
    pods: dict[str, list[Pod]]
    items: list[Storage] = field(default_factory=list)

    def find(self, kind: type[Any], name: str) -> Any:
        found = [
            each for each in self.items if isinstance(each, kind) and each.metadata.key == name
        ]
        return found[-1] if found else None

    def all(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.items if isinstance(each, kind)]

    def claim(self, pod: Pod, name: str) -> Any:
        return self.find(PersistentVolumeClaim, f"{pod.metadata.namespace}/{name}")

    def without(self, node: str, gone: Iterable[Pod], come: Iterable[Pod]) -> "World":
        """Return the world with other pods on one node."""
        uids = {pod.uid for pod in gone}
        there = [pod for pod in self.pods.get(node, []) if pod.uid not in uids]
        return World(self.nodes, {**self.pods, node: [*there, *come]}, self.items)


def claim_names(pod: Pod) -> list[str]:
    names = []
    for each in pod.spec.volumes:
        if each.persistent_volume_claim is not None:
            names.append(each.persistent_volume_claim.claim_name)
        elif each.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{each.name}")
    return names


def plain_claim_names(pod: Pod) -> list[str]:
    found = (each.persistent_volume_claim for each in pod.spec.volumes)
    return [each.claim_name for each in found if each is not None]


# VolumeRestrictions ---------------------------------------------------------------------------


def restrictions(
    world: World, pod: Pod, node: Node, gone: Iterable[Pod] = (), come: Iterable[Pod] = ()
) -> Reasons | Refused:
    """Evaluate one node, as it would be without some of its pods and with others."""
    claims = {name: world.claim(pod, name) for name in plain_claim_names(pod)}
    for name, claim in claims.items():
        if claim is None:
            return Refused(f'persistentvolumeclaim "{name}" not found')
    alone = {name for name, each in claims.items() if "ReadWriteOncePod" in each.spec.access_modes}
    here = world.without(node.metadata.name, gone, come).pods[node.metadata.name]
    if any(clash(a, b) for a in pod.spec.volumes for other in here for b in other.spec.volumes):
        return (DISK,)
    used = sum(is_used(world, pod.metadata.namespace, name) for name in alone)
    if used == 0 and not any(needs_check(each) for each in pod.spec.volumes):
        return ()
    # Hypothetical pods are counted by name, whatever its namespace.
    used += sum(name in alone for other in come for name in plain_claim_names(other))
    used -= sum(name in alone for other in gone for name in plain_claim_names(other))
    return (IN_USE,) if used > 0 else ()


def needs_check(volume: Volume) -> bool:
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(each is not None for each in disks)


def is_used(world: World, namespace: str, name: str) -> bool:
    """Return whether a pod on a node that exists uses a claim."""
    return any(
        other.metadata.namespace == namespace and name in plain_claim_names(other)
        for node in world.nodes
        for other in world.pods.get(node.metadata.name, [])
    )


def clash(a: Volume, b: Volume) -> bool:
    """Return whether two mounts on one node exclude each other."""
    if a.gce_persistent_disk and b.gce_persistent_disk:
        x, y = a.gce_persistent_disk, b.gce_persistent_disk
        return x.pd_name == y.pd_name and not (x.read_only and y.read_only)
    if a.aws_elastic_block_store and b.aws_elastic_block_store:
        return a.aws_elastic_block_store.volume_id == b.aws_elastic_block_store.volume_id
    if a.iscsi and b.iscsi:
        return a.iscsi.iqn == b.iscsi.iqn and not (a.iscsi.read_only and b.iscsi.read_only)
    if a.rbd and b.rbd:
        same = (a.rbd.pool, a.rbd.image) == (b.rbd.pool, b.rbd.image)
        shared = any(each in b.rbd.monitors for each in a.rbd.monitors)
        return same and shared and not (a.rbd.read_only and b.rbd.read_only)
    return False


# NodeVolumeLimits -----------------------------------------------------------------------------


def limits(world: World, pod: Pod, node: Node) -> Reasons:
    """Evaluate one node; all claims of the pod must exist."""
    name = node.metadata.name
    csi_node = world.find(CSINode, name)
    drivers = (csi_node.spec.drivers or ()) if csi_node else ()
    most = {each.name: each.allocatable.count for each in drivers if each.allocatable is not None}
    attached = {found for other in world.pods.get(name, []) for found in csi_volumes(world, other)}
    new = csi_volumes(world, pod) - attached
    attached |= {
        found for each in world.all(VolumeAttachment) for found in left_over(world, each, name)
    }
    for driver in {each for each, _ in new}:
        count = sum(each == driver for each, _ in new) + sum(each == driver for each, _ in attached)
        if driver in most and count > most[driver]:
            return (FULL,)
    return ()


def left_over(world: World, item: VolumeAttachment, node: str) -> set[tuple[str, str]]:
    volume = world.find(PersistentVolume, item.spec.source.persistent_volume_name or "")
    if item.spec.node_name != node or volume is None or volume.spec.csi is None:
        return set()
    return {(item.spec.attacher, volume.spec.csi.volume_handle)}


def csi_volumes(world: World, pod: Pod) -> set[tuple[str, str]]:
    found = set()
    for each in pod.spec.volumes:
        if each.gce_persistent_disk:
            name = each.gce_persistent_disk.pd_name
            handle = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}"
            found.add(("pd.csi.storage.gke.io", handle))
        if each.aws_elastic_block_store:
            found.add(("ebs.csi.aws.com", each.aws_elastic_block_store.volume_id))
    for name in claim_names(pod):
        claim = world.claim(pod, name)
        if claim is not None:
            found |= csi_volume(world, claim)
    return found


def csi_volume(world: World, claim: PersistentVolumeClaim) -> set[tuple[str, str]]:
    volume = world.find(PersistentVolume, claim.spec.volume_name)
    if volume is None:
        of = world.find(StorageClass, claim.spec.storage_class_name or "")
        taken_over = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
        if of is None or not of.provisioner:
            return set()
        return {(taken_over.get(of.provisioner, of.provisioner), f"unmade:{claim.key}")}
    if volume.spec.csi is not None:
        return {(volume.spec.csi.driver, volume.spec.csi.volume_handle)}
    if volume.spec.aws_elastic_block_store is not None:
        return {("ebs.csi.aws.com", volume.spec.aws_elastic_block_store.volume_id)}
    return set()


# VolumeZone -----------------------------------------------------------------------------------


def zone(world: World, pod: Pod, node: Node) -> Reasons | Refused:
    """Evaluate one node."""
    wanted = []
    for name in plain_claim_names(pod):
        volume = zoned(world, world.claim(pod, name), name)
        if isinstance(volume, str):
            return Refused(volume)
        if volume is not None:
            of_volume = volume.metadata.labels
            wanted += [(each, of_volume[each]) for each in ZONES if each in of_volume]
    labels = node.metadata.labels
    if not any(each in labels for each in ZONES):
        return ()
    for label, values in wanted:
        value = labels.get(label, labels.get(ZONES[label]))
        if value not in values.split("__"):
            return (ZONE,)
    return ()


def zoned(
    world: World, claim: PersistentVolumeClaim | None, name: str
) -> PersistentVolume | str | None:
    """Return the volume of a claim, or what is wrong with the claim."""
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.spec.volume_name:
        volume: PersistentVolume | None = world.find(PersistentVolume, claim.spec.volume_name)
        return volume or f'persistentvolume "{claim.spec.volume_name}" not found'
    class_name = claim.spec.storage_class_name
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    of = world.find(StorageClass, class_name)
    if of is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    return (
        None if of.volume_binding_mode == "WaitForFirstConsumer" else "PersistentVolume had no name"
    )


# VolumeBinding --------------------------------------------------------------------------------


def binding(world: World, pod: Pod, node: Node) -> Reasons | Refused:
    """Evaluate one node; no claim is terminating or lost, and ephemeral ones are the pod's own."""
    claims = []
    for name in claim_names(pod):
        claim = world.claim(pod, name)
        if claim is None:
            return Refused(f'persistentvolumeclaim "{name}" not found')
        claims.append(claim)
    bound = [each for each in claims if is_bound(each)]
    waiting = [each for each in claims if not is_bound(each) and waits(world, each)]
    if len(bound) + len(waiting) < len(claims):
        return Refused("pod has unbound immediate PersistentVolumeClaims")
    reasons = []
    no_such = False
    for claim in bound:
        volume = world.find(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            no_such = True
            break
        if not reached(volume, node):
            reasons.append(UNREACHABLE)
            break
    reasons += find(world, waiting, node)
    return (*reasons, NO_SUCH) if no_such else tuple(reasons)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    completed = "pv.kubernetes.io/bind-completed" in claim.metadata.annotations
    return bool(claim.spec.volume_name) and completed


def waits(world: World, claim: PersistentVolumeClaim) -> bool:
    of = world.find(StorageClass, claim.spec.storage_class_name or "")
    late = of is not None and of.volume_binding_mode == "WaitForFirstConsumer"
    return late and not claim.spec.volume_name


def find(world: World, waiting: list[PersistentVolumeClaim], node: Node) -> list[str]:
    """Return why the claims get no volumes."""
    make, match = [], []
    for claim in waiting:
        selected = claim.metadata.annotations.get("volume.kubernetes.io/selected-node")
        if selected is not None and selected != node.metadata.name:
            return [NO_VOLUME]
        (match if selected is None else make).append(claim)
    taken: list[PersistentVolume] = []
    for claim in sorted(match, key=lambda each: quantity.exact(each.request or "0")):
        volume = best(world, claim, node, taken)
        if volume is None:
            make.append(claim)
        else:
            taken.append(volume)
    reasons = [unmakeable(world, claim, node) for claim in make]
    return [reason for reason in reasons if reason][:1]


def best(
    world: World, claim: PersistentVolumeClaim, node: Node, taken: list[PersistentVolume]
) -> PersistentVolume | None:
    """Return the volume that a claim gets."""
    volumes = sorted(world.all(PersistentVolume), key=lambda each: str(each.metadata.name))
    suitable = [each for each in volumes if each not in taken and suits(each, claim)]
    for volume in suitable:
        if is_mine(volume, claim):
            return volume if reached(volume, node) else None
    free = [each for each in suitable if is_free(each, claim) and reached(each, node)]
    return min(free, key=lambda each: quantity.exact(each.capacity), default=None)


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    has, wants = volume.spec, claim.spec
    return (
        has.storage_class_name == wants.storage_class_name
        and quantity.exact(volume.capacity) >= quantity.exact(claim.request or "0")
        and (has.volume_mode or "Filesystem") == (wants.volume_mode or "Filesystem")
        and volume.metadata.deletion_timestamp is None
    )


def is_mine(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return reference.uid in ("", meta.uid)


def is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    chosen = claim.spec.selector is None or selected_by(claim.spec.selector, volume.metadata.labels)
    accessible = set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    nobodys = volume.spec.claim_ref is None and volume.status.phase == "Available"
    return chosen and accessible and nobodys


def unmakeable(world: World, claim: PersistentVolumeClaim, node: Node) -> str:
    """Return why no volume can be made for a claim; empty if one can."""
    of = world.find(StorageClass, claim.spec.storage_class_name or "")
    labels = node.metadata.labels
    if of.provisioner in ("", "kubernetes.io/no-provisioner"):
        return NO_VOLUME
    terms = [each.match_label_expressions for each in of.allowed_topologies]
    if terms and not any(
        term and all(labels.get(each.key) in each.values for each in term) for term in terms
    ):
        return NO_VOLUME
    driver = world.find(CSIDriver, of.provisioner)
    if driver is None or not driver.spec.storage_capacity or claim.request is None:
        return ""
    for room in world.all(CSIStorageCapacity):
        most = room.maximum_volume_size if room.maximum_volume_size is not None else room.capacity
        if room.storage_class_name == of.metadata.name and most is not None:
            enough = quantity.value(most) >= quantity.value(claim.request)
            if (
                enough
                and room.node_topology is not None
                and selected_by(room.node_topology, labels)
            ):
                return ""
    return NO_ROOM


def reached(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    required: NodeSelector | None = None if affinity is None else affinity.required
    return required is None or any(
        selectors.matches_term(term, "", node.metadata.labels)
        for term in required.node_selector_terms
    )


def selected_by(selector: LabelSelector, labels: dict[str, str]) -> bool:
    try:
        return Selector.of(selector).matches(labels)
    except SelectorError:
        return False
