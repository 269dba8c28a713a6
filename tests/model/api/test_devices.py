"""Objects of dynamic resource allocation are read from JSON as the API server writes it."""

import msgspec
import pytest

from scheduler.model.api import devices, quantity
from scheduler.model.api.devices import ResourceClaim, ResourceSlice

CLAIM = b"""{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
 "metadata": {"name": "c", "namespace": "team", "uid": "u", "resourceVersion": "7",
  "finalizers": ["resource.kubernetes.io/delete-protection"],
  "annotations": {"resource.kubernetes.io/extended-resource-claim": "true", "secret": "x"}},
 "spec": {"devices": {"requests": [
   {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2,
     "selectors": [{"cel": {"expression": "true"}}], "capacity": {"requests": {"memory": "1Gi"}}}},
   {"name": "s", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 1}]}],
  "constraints": [{"requests": ["r"], "matchAttribute": "d/numa"}]}},
 "status": {"allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p",
    "device": "x", "shareID": "share", "consumedCapacity": {"memory": "2Gi"}}],
    "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {"any": [1]}}}]},
   "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
     {"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}},
  "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}]}}"""
SLICE = b"""{"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n",
 "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
 "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "4Gi"}}}],
 "devices": [{"name": "x", "attributes": {"a": {"int": 1}, "b": {"bool": false},
   "c": {"version": "1.0.0"}, "l": {"strings": ["x"]}},
   "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi",
     "validRange": {"min": "1Gi", "step": "2Gi"}}}},
   "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "3Gi"}}}]}]}}"""


def test_a_claim_has_the_fields_that_rules_read():
    claim = msgspec.json.decode(CLAIM, type=ResourceClaim)

    assert claim.key == claim.metadata.key == "team/c"
    assert claim.reserved_by("uid-p")
    assert not claim.reserved_by("uid-q")
    assert claim.status.allocation is not None
    (result,) = claim.status.allocation.devices.results
    assert (result.id, result.share_id) == (("d", "p", "x"), "share")
    assert "x" not in claim.metadata.annotations.values()
    assert claim.spec.devices.requests[1].first_available[0].name == "a"


def test_lists_that_the_api_server_writes_as_null_are_empty():
    status = b'{"devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": null}]}'
    body = b'{"spec": {"devices": {"requests": null}}, "status": %b}' % status

    claim = msgspec.json.decode(body, type=ResourceClaim)

    assert claim.spec.devices.requests == []
    assert claim.status.devices[0].conditions == []


def test_what_is_allocated_is_written_as_it_was_read():
    claim = msgspec.json.decode(CLAIM, type=ResourceClaim)

    written = msgspec.to_builtins(claim.status.allocation)

    assert written == msgspec.json.decode(CLAIM)["status"]["allocation"]


def test_all_amounts_of_an_object_are_found():
    claim = msgspec.json.decode(CLAIM, type=ResourceClaim)
    item = msgspec.json.decode(SLICE, type=ResourceSlice)

    assert sorted(map(str, devices.amounts(claim))) == ["1Gi", "2Gi"]
    assert sorted(map(str, devices.amounts(item))) == ["1Gi", "1Gi", "2Gi", "3Gi", "4Gi", "8Gi"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1024Mi", "1Gi"), ("1500Mi", "1500Mi"), ("0.5Gi", "512Mi"), ("512", "512"),
        ("0.5Ki", "512"), ("1000", "1k"), ("1500m", "1500m"), ("6G", "6G"), ("0", "0"),
        ("2e3", "2e3"), (7, "7"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_as_the_api_machinery_writes_it(text, want):
    assert quantity.canonical(text) == want
