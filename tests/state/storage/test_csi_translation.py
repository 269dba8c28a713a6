"""Translation of in-tree volumes to CSI volumes."""

import pytest

from scheduler.model.api.objects import NodeSelectorTerm, Requirement, Volume
from scheduler.model.api.storage import AzureDisk, AzureFile, Cinder, PortworxVolume, VsphereVolume
from scheduler.state.storage import csi_translation as migration
from scheduler.state.storage.csi_translation import CsiVolume, TranslationError
from tests.support.storage import ebs_disk, gce_disk, iscsi, volume

ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def ebs(handle: str = "vol-1"):
    return volume("v").spec(aws_elastic_block_store=ebs_disk(handle).aws_elastic_block_store)


def gce():
    return volume("v").spec(gce_persistent_disk=gce_disk("d").gce_persistent_disk)


KNOWN = [
    pytest.param(volume("v").csi("x", "h"), CsiVolume("x", "h"), id="CSI itself"),
    pytest.param(volume("v"), None, id="neither"),
    pytest.param(ebs(), CsiVolume("ebs.csi.aws.com", "vol-1"), id="EBS"),
    pytest.param(ebs("aws://us-1a/vol-1"), CsiVolume("ebs.csi.aws.com", "vol-1"), id="with zone"),
    pytest.param(ebs("aws:///vol-1"), CsiVolume("ebs.csi.aws.com", "vol-1"), id="without zone"),
    pytest.param(
        gce(),
        CsiVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        id="GCE, somewhere",
    ),
    pytest.param(
        gce().label(ZONE, "us-1-a"),
        CsiVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-1-a/disks/d"),
        id="GCE, in a zone",
    ),
    pytest.param(
        gce().label(BETA, "us-1-a__us-1-b"),
        CsiVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-1/disks/d"),
        id="GCE, in a region",
    ),
    pytest.param(
        volume("v").spec(azure_disk=AzureDisk("/disks/d", "Managed")),
        CsiVolume("disk.csi.azure.com", "/disks/d"),
        id="Azure disk",
    ),
    pytest.param(
        volume("v").spec(cinder=Cinder("c")),
        CsiVolume("cinder.csi.openstack.org", "c"),
        id="Cinder",
    ),
    pytest.param(
        volume("v").spec(portworx_volume=PortworxVolume("p")),
        CsiVolume("pxd.portworx.com", "p"),
        id="Portworx",
    ),
    pytest.param(volume("v").spec(azure_file=AzureFile()), None, id="Azure file is not migrated"),
    pytest.param(volume("v").spec(vsphere_volume=VsphereVolume()), None, id="nor is vSphere"),
]


@pytest.mark.parametrize(("of", "want"), KNOWN)
def test_a_volume_has_the_handle_of_its_driver(of, want):
    assert migration.of_volume(of.build()) == want


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(ebs("aws://us-1a/disk"), id="no EBS volume"),
        pytest.param(gce().label(ZONE, "a__b"), id="no GCE zones"),
        pytest.param(gce().label(ZONE, "us-1-a__us-2-a"), id="two GCE regions"),
        pytest.param(volume("v").spec(azure_disk=AzureDisk("d", "Shared")), id="unmanaged disk"),
    ],
)
def test_a_volume_that_cannot_be_translated_has_no_handle(odd):
    with pytest.raises(TranslationError):
        migration.of_volume(odd.build())


@pytest.mark.parametrize(
    ("disk", "want"),
    [
        (ebs_disk("vol-1"), CsiVolume("ebs.csi.aws.com", "vol-1")),
        (
            gce_disk("d"),
            CsiVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ),
        (iscsi("a"), None),
        (Volume(), None),
    ],
    ids=["EBS", "GCE", "iSCSI", "nothing"],
)
def test_a_disk_of_a_pod_has_the_handle_of_its_driver(disk, want):
    assert migration.of_inline(disk) == want
    assert (migration.inline_plugin(disk) is None) == (want is None)


def keys(of) -> list[list[tuple[str, list[str]]]]:
    selector = migration.required(of.build())
    terms: list[NodeSelectorTerm] = [] if selector is None else selector.node_selector_terms
    return [[(each.key, each.values) for each in term.match_expressions] for term in terms]


def test_the_zone_gets_the_key_of_the_driver():
    of = ebs().reached_by(**{ZONE: "a"}).reached_by(**{ZONE: "b", "x": "y"})

    assert keys(of) == [[(EBS_ZONE, ["a"])], [(EBS_ZONE, ["b"]), ("x", ["y"])]]


def test_an_old_region_gets_its_new_name():
    of = ebs().reached_by(**{BETA: "a", BETA_REGION: "r"})

    assert keys(of) == [[(EBS_ZONE, ["a"]), ("topology.kubernetes.io/region", ["r"])]]


def test_labels_set_the_zone_of_a_volume_without_one_in_its_node_affinity():
    assert keys(ebs().label(BETA, "b__a")) == [[(EBS_ZONE, ["a", "b"])]]
    by_host = ebs().label(ZONE, "a").reached_by(Requirement("host", "In", ["h"]))
    assert keys(by_host) == [[("host", ["h"]), (EBS_ZONE, ["a"])]]


def test_a_volume_without_a_zone_stays_without_one():
    assert migration.required(ebs().build()) is None
    assert migration.required(ebs().label(ZONE, " ").build()) is None
    assert migration.required(volume("v").spec(cinder=Cinder("c")).build()) is None


def test_a_driver_without_a_key_of_its_own_takes_the_labels_of_the_node():
    of = volume("v").spec(portworx_volume=PortworxVolume("p")).reached_by(**{ZONE: "a"})

    assert keys(of) == [[(ZONE, ["a"])]]
