"""The storage objects of the API, with only the fields that some rule reads.

As in `scheduler.model.api.objects`, objects are values: decoded from bytes once, never changed.
Each has its kind as a tag, so that one type, `Storage`, includes all of them.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from scheduler.model.api.objects import (
    AWSElasticBlockStore,
    GCEPersistentDisk,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    Quantities,
    ResourceRequirements,
)
from scheduler.model.base import AnnotatedMeta, Int32, Int64

__all__ = [
    "BIND_COMPLETED",
    "BOUND_BY_CONTROLLER",
    "MIGRATED_PLUGINS",
    "NO_PROVISIONER",
    "READ_WRITE_ONCE_POD",
    "SELECTED_NODE",
    "WAIT_FOR_FIRST_CONSUMER",
    "AttachmentSource",
    "AttachmentSpec",
    "AzureDisk",
    "AzureFile",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "CSIVolume",
    "Cinder",
    "ClaimReference",
    "ClaimSpec",
    "ObjectPhase",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PortworxVolume",
    "Storage",
    "StorageClass",
    "StorageMeta",
    "TopologyExpression",
    "TopologyTerm",
    "VolumeAttachment",
    "VolumeLimit",
    "VolumeNodeAffinity",
    "VolumeSpec",
    "VsphereVolume",
    "amounts",
    "annotated",
]

#: On a claim: its binding is complete.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: On a volume or claim: it was bound by a controller, not by hand.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: On a claim: a volume that this node can access is to be provisioned for it.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: On a CSINode: in-tree plugins that are migrated to CSI drivers there, joined by commas.
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
#: The older form of `storageClassName`; it takes precedence if both are set.
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

_READ: Final = frozenset(
    {BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, MIGRATED_PLUGINS, _CLASS}
)

#: The provisioner of classes whose volumes are created by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


class _Value(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all parts: immutable, camel case in JSON, and not tracked by the collector."""


class _Kind(_Value, frozen=True, tag_field="kind", tag=True):
    """Base of all kinds of objects; items of lists have no kind in JSON."""


class StorageMeta(AnnotatedMeta, frozen=True):
    """Metadata of objects with annotations for schedulers: volumes, claims, CSINodes."""

    def __post_init__(self) -> None:
        self.leave_out(self.annotations.keys() - _READ)


class ObjectPhase(_Value, frozen=True):
    """The status of a volume or a claim: its phase."""

    phase: str = ""


class CSIVolume(_Value, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class AzureDisk(_Value, frozen=True):
    """A disk of Microsoft's cloud, in the in-tree form."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None


class AzureFile(_Value, frozen=True):
    """A file share of Microsoft's cloud, in the in-tree form."""


class Cinder(_Value, frozen=True):
    """A volume of OpenStack, in the in-tree form."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class PortworxVolume(_Value, frozen=True):
    """A Portworx volume, in the in-tree form."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class VsphereVolume(_Value, frozen=True):
    """A vSphere disk, in the in-tree form."""


class ClaimReference(_Value, frozen=True):
    """The claim that a volume is bound to, or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.namespace}/{self.name}"


class VolumeNodeAffinity(_Value, frozen=True):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class VolumeSpec(_Value, frozen=True):
    """The spec of a volume."""

    capacity: Quantities = {}
    access_modes: list[str] = []
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class PersistentVolume(_Kind, frozen=True):
    """A persistent volume."""

    metadata: StorageMeta = StorageMeta()
    spec: VolumeSpec = VolumeSpec()
    status: ObjectPhase = ObjectPhase()

    @property
    def class_name(self) -> str:
        """The storage class, empty for none."""
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name)

    @property
    def capacity(self) -> str | int | float:
        """Its capacity as a quantity."""
        return self.spec.capacity.get("storage", "0")

    @property
    def required(self) -> NodeSelector | None:
        """The nodes that can access it; `None` for all."""
        affinity = self.spec.node_affinity
        return None if affinity is None else affinity.required


class ClaimSpec(_Value, frozen=True):
    """The spec of a claim."""

    access_modes: list[str] = []
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    volume_name: str = ""


class PersistentVolumeClaim(_Kind, frozen=True):
    """A persistent volume claim."""

    metadata: StorageMeta = StorageMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ObjectPhase = ObjectPhase()

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return self.metadata.key

    @property
    def class_name(self) -> str:
        """The storage class, empty for none."""
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name or "")

    @property
    def request(self) -> str | int | float | None:
        """The requested capacity as a quantity; `None` if there is none."""
        return self.spec.resources.requests.get("storage")

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is to be provisioned; `None` if none is selected yet."""
        return self.metadata.annotations.get(SELECTED_NODE)

    @property
    def bound(self) -> bool:
        """Whether it has a volume and the binding is complete."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class TopologyExpression(_Value, frozen=True):
    """A node label that must have one of some values."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(_Value, frozen=True):
    """A conjunction over node labels."""

    match_label_expressions: list[TopologyExpression] = []


class StorageClass(_Kind, frozen=True):
    """A storage class: how volumes are provisioned and bound."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] = []


class VolumeLimit(_Value, frozen=True):
    """The maximum number of volumes of a driver on a node."""

    count: Int32 | None = None


class CSINodeDriver(_Value, frozen=True):
    """A driver on a node."""

    name: str = ""
    topology_keys: list[str] | None = None
    allocatable: VolumeLimit | None = None


class CSINodeSpec(_Value, frozen=True):
    """The drivers on a node; the API writes empty lists of this kind as null."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(_Kind, frozen=True):
    """The CSI drivers of a node; it has the node's name."""

    metadata: StorageMeta = StorageMeta()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def drivers(self) -> frozenset[str]:
        """The names of the drivers on the node."""
        return frozenset(driver.name for driver in self.spec.drivers or ())

    @property
    def limits(self) -> dict[str, int]:
        """The maximum number of volumes on the node by driver, without drivers that have none."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @property
    def migrated_plugins(self) -> str:
        """The in-tree plugins that are migrated to CSI drivers, joined by commas."""
        return self.metadata.annotations.get(MIGRATED_PLUGINS, "")


class CSIDriverSpec(_Value, frozen=True):
    """The features of a driver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(_Kind, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()

    @property
    def tells_capacity(self) -> bool:
        """Whether CSIStorageCapacity objects limit where volumes are provisioned."""
        return bool(self.spec.storage_capacity)

    @property
    def required(self) -> bool:
        """Whether nodes without the driver reject pods with its volumes."""
        return bool(self.spec.prevent_pod_scheduling_if_missing)


class CSIStorageCapacity(_Kind, frozen=True):
    """The capacity for volumes of a class on some nodes."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | Int64 | float | None = None
    maximum_volume_size: str | Int64 | float | None = None

    @property
    def largest(self) -> str | int | float | None:
        """The largest possible volume as a quantity; `None` if it is unknown."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class AttachmentSource(_Value, frozen=True):
    """The volume of an attachment."""

    persistent_volume_name: str | None = None


class AttachmentSpec(_Value, frozen=True):
    """A volume, the node that it is attached to, and its driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(_Kind, frozen=True):
    """The attachment, finished or not, of a volume to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()


Storage: TypeAlias = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


def amounts(item: Storage) -> list[str | int | float]:
    """Return all quantities of an object, even those that no rule reads."""
    named: tuple[str | int | float | None, ...] = ()
    match item:
        case PersistentVolume():
            named = (item.capacity,)
        case PersistentVolumeClaim():
            named = (item.request,)
        case CSIStorageCapacity():
            named = (item.capacity, item.maximum_volume_size)
        case _:
            pass
    return [amount for amount in named if amount is not None]


def annotated(metadata: StorageMeta, more: Mapping[str, str]) -> StorageMeta:
    """Return metadata with some annotations added or replaced."""
    return msgspec.structs.replace(metadata, annotations={**metadata.annotations, **more})
