"""Storage for tests: builders in the manner of `builders`, and a cluster with its controllers.

    volume("v").size("10Gi").of_class("local").reached_by(zone="a")
    claim("c").size("5Gi").of_class("local")
    using(pod("p"), "c")
    StorageCluster(node("n"), storage_class("local").waits(), volume("v"), claim("c"))

A `StorageCluster` carries out what the machine asks for and then plays the controllers of volumes,
unless a test says that they `sleep`.
"""

from dataclasses import dataclass
from typing import Any, Self, get_args

from msgspec.structs import replace

from scheduler.model.api import storage
from scheduler.model.api.objects import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    ClaimVolume,
    EphemeralVolume,
    GCEPersistentDisk,
    InlineCSI,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    Requirement,
    ResourceRequirements,
    Volume,
)
from scheduler.model.api.storage import (
    AttachmentSource,
    AttachmentSpec,
    ClaimReference,
    ClaimSpec,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    CSIVolume,
    ObjectPhase,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    StorageMeta,
    TopologyExpression,
    TopologyTerm,
    VolumeAttachment,
    VolumeLimit,
    VolumeNodeAffinity,
    VolumeSpec,
)
from scheduler.model.effects import BindVolumes, Effect
from scheduler.model.events import StorageGone, StorageObserved
from tests.support.builders import PodBuilder, at
from tests.support.cluster import Cluster

#: A CSI driver without any settings.
DRIVER = "csi.example.com"


@dataclass(frozen=True)
class _Builder:
    object: Any

    def build(self) -> Any:
        return self.object

    def meta(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, metadata=replace(self.object.metadata, **changes)))

    def spec(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, spec=replace(self.object.spec, **changes)))

    def having(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, **changes))

    def version(self, version: int) -> Self:
        return self.meta(resource_version=str(version))

    def label(self, key: str, value: str) -> Self:
        return self.meta(labels={**self.object.metadata.labels, key: value})

    def annotation(self, key: str, value: str = "yes") -> Self:
        return self.meta(annotations={**self.object.metadata.annotations, key: value})

    def deleting(self) -> Self:
        return self.meta(deletion_timestamp=at(0))

    def phase(self, phase: str) -> Self:
        return self.having(status=ObjectPhase(phase))


class VolumeBuilder(_Builder):
    """An available volume of 1Gi that every node can access."""

    def size(self, amount: str) -> Self:
        return self.spec(capacity={"storage": amount})

    def modes(self, *modes: str) -> Self:
        return self.spec(access_modes=list(modes))

    def of_class(self, name: str) -> Self:
        return self.spec(storage_class_name=name)

    def reached_by(self, *expressions: Requirement, **labels: str) -> Self:
        """Be reached by nodes with these labels; called again, by these nodes as well."""
        equal = [Requirement(key, "In", [value]) for key, value in labels.items()]
        term = NodeSelectorTerm(match_expressions=[*equal, *expressions])
        before = self.object.required
        terms = [] if before is None else before.node_selector_terms
        return self.spec(node_affinity=VolumeNodeAffinity(NodeSelector([*terms, term])))

    def for_claim(self, name: str, uid: str = "", namespace: str = "default") -> Self:
        """Be reserved for a claim, by hand unless it says otherwise."""
        return self.spec(claim_ref=ClaimReference(namespace, name, uid))

    def csi(self, driver: str, handle: str = "") -> Self:
        return self.spec(csi=CSIVolume(driver, handle or self.object.metadata.name))


class ClaimBuilder(_Builder):
    """A claim on 1Gi in the namespace `default`, not bound."""

    @property
    def key(self) -> str:
        key: str = self.object.key
        return key

    def namespace(self, namespace: str) -> Self:
        return self.meta(namespace=namespace, uid=claim_uid(self.object.metadata.name, namespace))

    def size(self, amount: str) -> Self:
        return self.spec(resources=ResourceRequirements(requests={"storage": amount}))

    def modes(self, *modes: str) -> Self:
        return self.spec(access_modes=list(modes))

    def of_class(self, name: str | None) -> Self:
        return self.spec(storage_class_name=name)

    def selects(self, **labels: str) -> Self:
        return self.spec(selector=LabelSelector(labels))

    def bound_to(self, volume: str) -> Self:
        """Be bound to a volume, completely."""
        return self.spec(volume_name=volume).annotation(storage.BIND_COMPLETED).phase("Bound")

    def on(self, node: str) -> Self:
        """Have a node selected for which a volume is to be made."""
        return self.annotation(storage.SELECTED_NODE, node)

    def owned_by(self, pod: PodBuilder) -> Self:
        meta = pod.object.metadata
        return self.meta(owner_references=[OwnerReference("v1", "Pod", meta.name, meta.uid, True)])


class ClassBuilder(_Builder):
    """A class without a provisioner whose claims are bound at once."""

    def waits(self) -> Self:
        return self.having(volume_binding_mode=storage.WAIT_FOR_FIRST_CONSUMER)

    def made_by(self, provisioner: str) -> Self:
        return self.having(provisioner=provisioner)

    def allows(self, **values: str | tuple[str, ...]) -> Self:
        """Allow volumes on nodes with all these labels; called again, on others as well."""
        expressions = [
            TopologyExpression(key, [value] if isinstance(value, str) else list(value))
            for key, value in values.items()
        ]
        return self.having(
            allowed_topologies=[*self.object.allowed_topologies, TopologyTerm(expressions)]
        )


class CSINodeBuilder(_Builder):
    """What a node says of CSI: nothing."""

    def driver(self, name: str, limit: int | None = None, *keys: str) -> Self:
        allocatable = None if limit is None else VolumeLimit(limit)
        driver = CSINodeDriver(name, list(keys), allocatable)
        return self.spec(drivers=[*(self.object.spec.drivers or ()), driver])

    def migrated(self, *plugins: str) -> Self:
        return self.annotation(storage.MIGRATED_PLUGINS, ",".join(plugins))


class CapacityBuilder(_Builder):
    """Capacity for volumes of a class, of unknown size and for no node."""

    def room(self, amount: str) -> Self:
        return self.having(capacity=amount)

    def at_most(self, amount: str) -> Self:
        return self.having(maximum_volume_size=amount)

    def for_nodes(self, **labels: str) -> Self:
        return self.having(node_topology=LabelSelector(labels))


def volume(name: str) -> VolumeBuilder:
    """Start a volume."""
    spec = VolumeSpec(capacity={"storage": "1Gi"}, access_modes=["ReadWriteOnce"])
    return VolumeBuilder(
        PersistentVolume(StorageMeta(name=name, uid=f"uid:{name}"), spec, ObjectPhase("Available"))
    )


def claim(name: str) -> ClaimBuilder:
    """Start a claim."""
    meta = StorageMeta(name=name, namespace="default", uid=claim_uid(name))
    spec = ClaimSpec(
        access_modes=["ReadWriteOnce"],
        resources=ResourceRequirements(requests={"storage": "1Gi"}),
    )
    return ClaimBuilder(PersistentVolumeClaim(meta, spec, ObjectPhase("Pending")))


def bound(*names: str, driver: str = DRIVER) -> list[object]:
    """Return claims that are bound to volumes of a driver."""
    made: list[object] = []
    for name in names:
        made += [volume(f"v-{name}").csi(driver, name), claim(name).bound_to(f"v-{name}")]
    return made


def claim_uid(name: str, namespace: str = "default") -> str:
    return f"uid:claim:{namespace}/{name}"


def storage_class(name: str) -> ClassBuilder:
    """Start a class."""
    plain = StorageClass(ObjectMeta(name=name), storage.NO_PROVISIONER, "Immediate")
    return ClassBuilder(plain)


def csi_node(name: str) -> CSINodeBuilder:
    """Start what a node says of CSI."""
    return CSINodeBuilder(CSINode(StorageMeta(name=name), CSINodeSpec([])))


def csi_driver(name: str, *, tells_capacity: bool | None = False) -> CSIDriver:
    """Return a driver."""
    return CSIDriver(ObjectMeta(name=name), CSIDriverSpec(tells_capacity))


def capacity(name: str, class_name: str) -> CapacityBuilder:
    """Start the reported capacity for a class."""
    return CapacityBuilder(CSIStorageCapacity(ObjectMeta(name, "default"), class_name))


def attachment(name: str, volume_name: str, node: str, attacher: str) -> VolumeAttachment:
    """Return an attachment."""
    spec = AttachmentSpec(attacher, node, AttachmentSource(volume_name))
    return VolumeAttachment(ObjectMeta(name=name), spec)


# Volumes of pods ------------------------------------------------------------------------------


def using(pod: PodBuilder, *claims: str) -> PodBuilder:
    """Let a pod use claims."""
    return mounting(pod, *(Volume(persistent_volume_claim=ClaimVolume(each)) for each in claims))


def mounting(pod: PodBuilder, *volumes: Volume) -> PodBuilder:
    """Let a pod mount volumes."""
    before = pod.object.spec.volumes
    named = [replace(each, name=f"v{i}") for i, each in enumerate(volumes, start=len(before))]
    return pod.spec(volumes=[*before, *named])


def with_ephemeral(pod: PodBuilder, *names: str) -> PodBuilder:
    """Let a pod have volumes of its own."""
    own = [Volume(name=name, ephemeral=EphemeralVolume()) for name in names]
    return pod.spec(volumes=[*pod.object.spec.volumes, *own])


def iscsi(iqn: str, *, read_only: bool = False) -> Volume:
    return Volume(iscsi=ISCSI(iqn=iqn, read_only=read_only))


def rbd(image: str, *monitors: str, pool: str = "rbd", read_only: bool = False) -> Volume:
    return Volume(rbd=RBD(list(monitors), image, pool, read_only))


def gce_disk(name: str, *, read_only: bool = False) -> Volume:
    return Volume(gce_persistent_disk=GCEPersistentDisk(name, read_only))


def ebs_disk(name: str, *, read_only: bool = False) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(name, read_only))


def inline_csi(driver: str) -> Volume:
    return Volume(csi=InlineCSI(driver))


# A cluster with storage -----------------------------------------------------------------------


class StorageCluster(Cluster):
    """A cluster whose API server and controllers know storage."""

    def __init__(self, *objects: Any, **more: Any) -> None:
        #: Storage objects that there are, by kind and key.
        self.storage: dict[tuple[str, str], Storage] = {}
        self._asleep = False
        super().__init__(*objects, **more)

    def _take(self, thing: Any) -> None:
        if isinstance(thing, get_args(Storage)):
            self.store(thing)
        else:
            super()._take(thing)

    def store(self, item: Storage) -> None:
        """Create a storage object, or replace it by its new state."""
        self._version += 1
        given = item.metadata.resource_version or str(self._version)
        seen = replace(item, metadata=replace(item.metadata, resource_version=given))
        self.storage[type(seen).__name__, seen.metadata.key] = seen
        self._report(StorageObserved(seen))

    def change_stored(self, kind: type[Any], key: str, how: Any) -> None:
        """Change a storage object as another client would."""
        builder = {PersistentVolume: VolumeBuilder, PersistentVolumeClaim: ClaimBuilder}[kind]
        changed = how(builder(self.stored(kind, key)))
        self.add(changed.meta(resource_version=""))

    def stored(self, kind: type[Any], key: str) -> Any:
        """Return a storage object."""
        return self.storage[kind.__name__, key]

    def volume(self, name: str) -> PersistentVolume:
        """Return a volume as the API server has it."""
        found: PersistentVolume = self.stored(PersistentVolume, name)
        return found

    def claim(self, name: str) -> PersistentVolumeClaim:
        """Return a claim in the namespace `default` as the API server has it."""
        found: PersistentVolumeClaim = self.stored(PersistentVolumeClaim, f"default/{name}")
        return found

    def remove_stored(self, kind: type[Any], key: str) -> None:
        """Delete a storage object."""
        del self.storage[kind.__name__, key]
        self._report(StorageGone(kind.__name__, key))

    def sleep(self) -> None:
        """Let the controllers do nothing from now on."""
        self._asleep = True

    def awake(self) -> None:
        """Let the controllers do what there is to do."""
        self._asleep = False
        self._control()

    def change_objects(self, effect: Effect) -> bool:
        if not isinstance(effect, BindVolumes):
            return super().change_objects(effect)
        self._alter(effect.pod, lambda pod: PodBuilder(pod).nominated(effect.node).build())
        self._write(effect)
        self._control()
        return True

    def _write(self, effect: BindVolumes) -> None:
        for part in effect.volumes:
            found = VolumeBuilder(self.volume(part.volume))
            assert found.object.metadata.resource_version == part.version
            changed = found.for_claim(part.claim_name, part.claim_uid, part.claim_namespace)
            if part.by_controller:
                changed = changed.annotation(storage.BOUND_BY_CONTROLLER)
            self.add(changed.meta(resource_version=""))
        for each in effect.claims:
            key = f"{each.claim_namespace}/{each.claim_name}"
            found_claim = ClaimBuilder(self.stored(PersistentVolumeClaim, key))
            assert found_claim.object.metadata.resource_version == each.version
            self.add(found_claim.on(effect.node).meta(resource_version=""))

    def _control(self) -> None:
        """Do what the controller of volumes and a provisioner do."""
        if self._asleep:
            return
        for item in list(self.storage.values()):
            if isinstance(item, PersistentVolumeClaim) and not item.bound:
                volume_of = self._volume_for(item)
                if volume_of is not None:
                    self.add(volume_of.phase("Bound").meta(resource_version=""))
                    bound = ClaimBuilder(item).bound_to(volume_of.object.metadata.name)
                    self.add(bound.meta(resource_version=""))

    def _volume_for(self, wanted: PersistentVolumeClaim) -> VolumeBuilder | None:
        for item in list(self.storage.values()):
            reference = item.spec.claim_ref if isinstance(item, PersistentVolume) else None
            if reference is not None and reference.uid == wanted.metadata.uid:
                return VolumeBuilder(item)
        if wanted.selected_node is None:
            return None
        made = volume(f"pvc-{wanted.metadata.name}").of_class(wanted.class_name)
        meta = wanted.metadata
        return made.for_claim(meta.name, meta.uid, meta.namespace)
