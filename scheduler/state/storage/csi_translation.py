"""Translation of in-tree volumes to volumes of the CSI drivers that replaced the in-tree plugins.

The in-tree plugins of cloud providers were removed; CSI drivers serve their volumes, with handles
and topology keys of their own. Pure functions; a volume that cannot be translated has no handle.

Source: csi-translation-lib v0.36.3 translate.go, plugins.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from scheduler.model.api.objects import NodeSelector, NodeSelectorTerm, Requirement, Volume
from scheduler.model.api.storage import PersistentVolume

__all__ = [
    "DRIVERS",
    "MIGRATABLE",
    "CsiVolume",
    "TranslationError",
    "inline_plugin",
    "of_inline",
    "of_volume",
    "plugin",
    "required",
]

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

_EBS: Final = "kubernetes.io/aws-ebs"
_GCE: Final = "kubernetes.io/gce-pd"
_AZURE_DISK: Final = "kubernetes.io/azure-disk"
_AZURE_FILE: Final = "kubernetes.io/azure-file"
_CINDER: Final = "kubernetes.io/cinder"
_PORTWORX: Final = "kubernetes.io/portworx-volume"
_VSPHERE: Final = "kubernetes.io/vsphere-volume"

#: All plugins whose volumes could be translated. kube-scheduler treats only those of `DRIVERS` as
#: migrated.
MIGRATABLE: Final = frozenset({_EBS, _GCE, _AZURE_DISK, _AZURE_FILE, _CINDER, _PORTWORX, _VSPHERE})
#: The CSI driver of each migrated plugin.
DRIVERS: Final[Mapping[str, str]] = {
    _EBS: "ebs.csi.aws.com",
    _GCE: "pd.csi.storage.gke.io",
    _AZURE_DISK: "disk.csi.azure.com",
    _CINDER: "cinder.csi.openstack.org",
    _PORTWORX: "pxd.portworx.com",
}
#: The topology key for the zone of a node, by plugin, for drivers with a key of their own.
_ZONE_KEYS: Final[Mapping[str, str]] = {
    _EBS: "topology.ebs.csi.aws.com/zone",
    _GCE: "topology.gke.io/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
_DELIMITER: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """A volume that cannot be translated for its CSI driver."""


class CsiVolume(NamedTuple):
    """A volume, as its CSI driver identifies it."""

    driver: str
    handle: str


def plugin(volume: PersistentVolume) -> str | None:
    """Return the in-tree plugin of a volume; `None` if it has none."""
    spec = volume.spec
    sources = (
        (_EBS, spec.aws_elastic_block_store),
        (_GCE, spec.gce_persistent_disk),
        (_AZURE_DISK, spec.azure_disk),
        (_AZURE_FILE, spec.azure_file),
        (_CINDER, spec.cinder),
        (_PORTWORX, spec.portworx_volume),
        (_VSPHERE, spec.vsphere_volume),
    )
    return next((name for name, source in sources if source is not None), None)


def inline_plugin(volume: Volume) -> str | None:
    """Return the in-tree plugin of an inline volume of a pod; `None` if it has none."""
    if volume.aws_elastic_block_store is not None:
        return _EBS
    if volume.gce_persistent_disk is not None:
        return _GCE
    return None


def of_inline(volume: Volume) -> CsiVolume | None:
    """Return the CSI volume of an inline volume of a pod; `None` if its plugin is not migrated.

    Raises:
        TranslationError: The volume cannot be translated.
    """
    if volume.aws_elastic_block_store is not None:
        return CsiVolume(DRIVERS[_EBS], _ebs_handle(volume.aws_elastic_block_store.volume_id))
    if volume.gce_persistent_disk is not None:
        name = volume.gce_persistent_disk.pd_name
        return CsiVolume(DRIVERS[_GCE], _zonal_disk(_UNSPECIFIED, name))
    return None


def of_volume(volume: PersistentVolume) -> CsiVolume | None:
    """Return the CSI volume of a volume; `None` if it has no CSI driver.

    Raises:
        TranslationError: The volume cannot be translated.
    """
    csi = volume.spec.csi
    if csi is not None:
        return CsiVolume(csi.driver, csi.volume_handle)
    name = plugin(volume)
    if name is None or name not in DRIVERS:
        return None
    return CsiVolume(DRIVERS[name], _HANDLES[name](volume))


def required(volume: PersistentVolume) -> NodeSelector | None:
    """Return the node affinity of a volume, for nodes on which its in-tree plugin is migrated.

    Raises:
        TranslationError: The volume cannot be translated.
    """
    name = plugin(volume)
    if name is None or name not in DRIVERS:
        return volume.required
    _HANDLES[name](volume)
    key = _ZONE_KEYS.get(name)
    return volume.required if key is None else _translated(volume, key)


def _ebs_handle(name: str) -> str:
    if not name.startswith("aws://"):
        return name
    handle = urlsplit(name).path.strip("/")
    if _EBS_VOLUME.fullmatch(handle) is None:
        raise TranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({name})"
        )
    return handle


def _ebs(volume: PersistentVolume) -> str:
    source = volume.spec.aws_elastic_block_store
    return "" if source is None else _ebs_handle(source.volume_id)


def _gce(volume: PersistentVolume) -> str:
    source, labels = volume.spec.gce_persistent_disk, volume.metadata.labels
    name = "" if source is None else source.pd_name
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(_DELIMITER)
    if len(zones) == 1:
        return _zonal_disk(zones[0] or _UNSPECIFIED, name)
    return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{name}"


def _zonal_disk(zone: str, name: str) -> str:
    return f"projects/{_UNSPECIFIED}/zones/{zone}/disks/{name}"


def _gce_region(zones: Sequence[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: "
                f"{{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(
            "failed to get region from zones: multiple or no regions gotten from zones"
        )
    return regions.pop()


def _azure_disk(volume: PersistentVolume) -> str:
    source = volume.spec.azure_disk
    if source is None:
        return ""
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


def _cinder(volume: PersistentVolume) -> str:
    return "" if volume.spec.cinder is None else volume.spec.cinder.volume_id


def _portworx(volume: PersistentVolume) -> str:
    source = volume.spec.portworx_volume
    return "" if source is None else source.volume_id


_HANDLES: Final[Mapping[str, Callable[[PersistentVolume], str]]] = {
    _EBS: _ebs,
    _GCE: _gce,
    _AZURE_DISK: _azure_disk,
    _CINDER: _cinder,
    _PORTWORX: _portworx,
}


def _translated(volume: PersistentVolume, key: str) -> NodeSelector | None:
    """Return the node affinity of a volume, with the driver's own key for the zone.

    Source: csi-translation-lib v0.36.3 plugins.translateTopologyFromInTreeToCSI.
    """
    selector, labels = volume.required, volume.metadata.labels
    terms = [] if selector is None else selector.node_selector_terms
    zone, region = _zone_and_region(terms, labels)
    if _values(terms, zone):
        terms = _renamed(terms, zone, key)
    else:
        zones = {name.strip() for name in labels.get(zone, "").split(_DELIMITER)} - {""}
        if zones:
            wanted = Requirement(key, "In", sorted(zones))
            terms = [
                replace(term, match_expressions=[*term.match_expressions, wanted])
                for term in terms or [NodeSelectorTerm()]
            ]
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return None if selector is None and not terms else NodeSelector(terms)


def _zone_and_region(
    terms: Sequence[NodeSelectorTerm], labels: Mapping[str, str]
) -> tuple[str, str]:
    """Return the keys for zone and region that a volume uses: the stable ones, or the beta ones."""
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for used in (keys, labels):
        if ZONE in used:
            return ZONE, REGION
        if BETA_ZONE in used:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: Sequence[NodeSelectorTerm], key: str) -> list[str]:
    return [
        value
        for term in terms
        for requirement in term.match_expressions
        if requirement.key == key
        for value in requirement.values
    ]


def _renamed(terms: Sequence[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        replace(
            term,
            match_expressions=[
                replace(item, key=new) if item.key == old else item
                for item in term.match_expressions
            ],
        )
        for term in terms
    ]
