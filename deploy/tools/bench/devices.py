"""Pods with claims for devices: each node has ten devices, each pod wants one.

The controller manager does not run, so the benchmark creates the claims that it would generate from
a template, with the pods and before the scheduler starts. Claims are allocated beforehand, as many
as in kube-scheduler's benchmark.

Source: kube-scheduler v1.37.2 test/integration/scheduler_perf/dra.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from deploy.tools.bench import templates
from deploy.tools.bench.calls import Call, merge, post, put
from deploy.tools.bench.templates import Json
from deploy.tools.bench.workloads import Batch, Nodes, Workload, pods_path

__all__ = [
    "allocated",
    "claim_writes",
    "claims_path",
    "extended_resource",
    "generated_claims",
    "resource_claim_template",
]

DRIVER: Final = "test-driver.cdi.k8s.io"
DEVICE_CLASS: Final = "test-class"
EXTENDED_RESOURCE: Final = "example.com/gpu"
DEVICES: Final = 10
#: The devices of a node are attached to so many PCI roots, in turns.
_PCI_ROOTS: Final = 2

_GROUP: Final = "/apis/resource.k8s.io/v1"
_TEMPLATE: Final = "test-claim-template"
_REQUEST: Final = "req-0"
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_SPEC: Final[Json] = {
    "devices": {"requests": [{"name": _REQUEST, "exactly": {"deviceClassName": DEVICE_CLASS}}]}
}
_MEASURED: Final = "measured"
_EXISTING: Final = "existing"


def resource_claim_template(nodes: int, taken: int, pods: int) -> Workload:
    """Return the workload in which each pod has a claim that is generated from a template."""
    template = {"metadata": {"name": _TEMPLATE}, "spec": {"spec": _SPEC}}
    claimed = templates.pod(
        None, resourceClaims=[{"name": "resource", "resourceClaimTemplateName": _TEMPLATE}]
    )
    return Workload(
        nodes=(Nodes(nodes),),
        namespaces={_EXISTING: {}},
        measured=(
            Batch(
                name="pod",
                namespace=_MEASURED,
                count=pods,
                template=lambda index: templates.with_container(
                    claimed(index), resources={"claims": [{"name": "resource"}]}
                ),
            ),
        ),
        objects=(
            *_devices(nodes, {}),
            *_allocated_claims(nodes, taken),
            [post(f"{_GROUP}/namespaces/{_MEASURED}/resourceclaimtemplates", template)],
        ),
        claims=True,
    )


def extended_resource(nodes: int, taken: int, pods: int) -> Workload:
    """Return the workload in which each pod asks for devices as an extended resource."""
    amounts = {EXTENDED_RESOURCE: "1"}
    requests = {"requests": amounts, "limits": amounts}
    return Workload(
        nodes=(Nodes(nodes),),
        namespaces={_EXISTING: {}},
        measured=(
            Batch(
                name="pod",
                namespace=_MEASURED,
                count=pods,
                template=lambda index: templates.with_container(
                    templates.pod(None)(index), resources=requests
                ),
            ),
        ),
        objects=(
            *_devices(nodes, {"extendedResourceName": EXTENDED_RESOURCE}),
            *_allocated_claims(nodes, taken),
        ),
    )


def generated_claims(pods: Sequence[Json]) -> Iterator[list[Call]]:
    """Yield the calls that create the claim of each pod, as the controller manager does.

    Args:
        pods: the pods, as the API server returned them.
    """
    for pod in pods:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"]}
        claim = {
            "metadata": {
                "name": f"{name}-resource",
                "annotations": {"resource.kubernetes.io/pod-claim-name": "resource"},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": _SPEC,
        }
        statuses = [{"name": "resource", "resourceClaimName": f"{name}-resource"}]
        yield [
            post(claims_path(namespace), claim),
            merge(
                f"{pods_path(namespace)}/{name}/status",
                {"status": {"resourceClaimStatuses": statuses}},
            ),
        ]


def claim_writes(pod: Json, claim: Json, node: str, device: int) -> list[Call]:
    """Return the calls by which a scheduler gives a device to the claim of a pod.

    Without a version, so that the finalizer and the status need no answer in between.
    """
    metadata = claim["metadata"]
    path = f"{claims_path(metadata['namespace'])}/{metadata['name']}"
    written = {
        "metadata": {**metadata, "finalizers": [_FINALIZER], "resourceVersion": ""},
        "spec": claim["spec"],
    }
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = {"allocation": allocated(node, device), "reservedFor": [consumer]}
    nominated = {"status": {"nominatedNodeName": node}}
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    return [
        merge(f"{pods_path(namespace)}/{name}/status", nominated),
        put(path, written),
        put(f"{path}/status", {**written, "status": status}),
    ]


def claims_path(namespace: str) -> str:
    """Return the API path of the claims of a namespace."""
    return f"{_GROUP}/namespaces/{namespace}/resourceclaims"


def allocated(node: str, device: int) -> Json:
    """Return the allocation of one device of a node."""
    result = {"request": _REQUEST, "driver": DRIVER, "pool": node, "device": device_name(device)}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def device_name(index: int) -> str:
    """Return the name of a device of a node."""
    return f"basic-device-{index}"


def _devices(nodes: int, class_fields: Mapping[str, str]) -> Iterator[list[Call]]:
    expression = f'device.driver == "{DRIVER}"'
    device_class = {
        "metadata": {"name": DEVICE_CLASS},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **class_fields},
    }
    yield [post(f"{_GROUP}/deviceclasses", device_class)]
    for index in range(nodes):
        yield [post(f"{_GROUP}/resourceslices", _slice(_node_name(index)))]


def _allocated_claims(nodes: int, count: int) -> Iterator[list[Call]]:
    """Yield the calls that create allocated claims; the first devices of the nodes are taken."""
    path = claims_path(_EXISTING)
    for index in range(count):
        name = f"allocated-{index}"
        claim = {"metadata": {"name": name, "finalizers": [_FINALIZER]}, "spec": _SPEC}
        status = {"allocation": allocated(_node_name(index % nodes), index // nodes)}
        yield [post(path, claim), put(f"{path}/{name}/status", {**claim, "status": status})]


def _node_name(index: int) -> str:
    name: str = templates.plain_node(index)["metadata"]["name"]
    return name


def _slice(node: str) -> Json:
    return {
        "metadata": {"name": node},
        "spec": {
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "driver": DRIVER,
            "nodeName": node,
            "devices": [_device(index) for index in range(DEVICES)],
        },
    }


def _device(index: int) -> Json:
    """Return a device with as many attributes as that of a real driver."""
    root = index % _PCI_ROOTS
    texts = {
        "driver": "xe",
        "resource.k8s.io/pciRoot": str(root),
        "family": "Arc Pro B-Series",
        "health": "Healthy",
        "model": "B60",
        "pciAddress": f"0000:0{index}:00.0",
        "pciId": "0xe211",
        "pciRoot": f"0{root}",
        "resource.kubernetes.io/pciBusID": f"0000:0{index}:00.0",
        "resource.kubernetes.io/pciRoot": f"pci0000:0{root}",
        "type": "gpu",
    }
    attributes: Json = {name: {"string": text} for name, text in texts.items()}
    attributes |= {"driverVersion": {"version": "1.2.3"}, "sriov": {"bool": True}}
    capacity = {"memory": {"value": "24480Mi"}, "millicores": {"value": "1k"}}
    return {"name": device_name(index), "attributes": attributes, "capacity": capacity}
