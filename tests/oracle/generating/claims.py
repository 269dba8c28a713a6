"""Random resource claims, and which pods use them."""

import copy

from tests.oracle.generating import slices
from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import ZONE
from tests.oracle.generating.resources import FPGA, GPU
from tests.oracle.generating.slices import API_VERSION, CLASSES, TAINTS, Pools
from tests.oracle.generating.traits import DeviceTraits

__all__ = ["Claims", "devices", "request"]

_LONG_AGO, _LATER = "2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_ATTRIBUTES = ("gpu.example.com/model", "gpu.example.com/index", "example.com/rack")
_UUID = "gpu.example.com/uuid"
_MOST_CONSUMERS = 256


def devices(
    dice: Dice, traits: DeviceTraits, nodes: list[Object], pods: list[Object]
) -> list[Object]:
    """Return classes, slices and claims of one cluster; some of the pods use the claims."""
    names = [node["metadata"]["name"] for node in nodes]
    pools = slices.slices(dice, traits, names)
    found = [*slices.classes(dice, traits), *dice.shuffled(pools.objects)]
    if dice.chance(traits.rules):
        found += slices.taint_rules(dice, names)
    made = Claims(dice, traits, pools, names)
    for pod in pods:
        if dice.chance(traits.claims):
            made.use(pod)
        if dice.chance(traits.extended):
            request(dice, pod)
            if "nodeName" not in pod["spec"] and dice.chance(0.08):
                made.leave_behind(pod)
    for name in names if dice.chance(traits.large) else ():
        made.occupy(name)
    for node in nodes:
        if traits.extended and dice.chance(0.7):
            node["status"]["allocatable"] |= {GPU: "0"} if dice.chance(0.5) else {}
            node["status"]["allocatable"].pop(FPGA, None)
    return [*found, *made.objects]


class Claims:
    """Makes the claims of one cluster; those of pods on nodes have devices."""

    def __init__(self, dice: Dice, traits: DeviceTraits, pools: Pools, nodes: list[str]) -> None:
        self._dice = dice
        self._traits = traits
        self._pools = pools
        self._nodes = nodes
        self.objects: list[Object] = []
        #: Claims that pods of a namespace share.
        self._shared: dict[str, list[Object]] = {}
        #: Device that pods on nodes have already.
        self._taken: set[tuple[str, str, str]] = set()
        self._forms = [self._devices() for _ in range(3)]

    def use(self, pod: Object) -> None:
        """Let a pod use some claims."""
        dice, metadata = self._dice, pod["metadata"]
        entries, statuses = [], []
        for number in range(dice.pick((1, 1, 1, 2))):
            entry: Object = {"name": f"e{number}"}
            if dice.chance(self._traits.shared):
                claim = self._shared_claim(metadata["namespace"])
                if any(claim["metadata"]["name"] in each.values() for each in entries):
                    continue
                entry["resourceClaimName"] = claim["metadata"]["name"]
            elif dice.chance(self._traits.template):
                claim = self._own_claim(pod, number)
                entry["resourceClaimTemplateName"] = "template"
                statuses += self._status(entry["name"], claim["metadata"]["name"])
            else:
                claim = self._claim(f"c-{metadata['name']}-{number}", metadata["namespace"])
                entry["resourceClaimName"] = claim["metadata"]["name"]
            entries.append(entry)
            self._advance(claim, pod)
        pod["spec"]["resourceClaims"] = entries
        if statuses:
            pod["status"]["resourceClaimStatuses"] = statuses

    def leave_behind(self, pod: Object) -> None:
        """Add the claim for extended resources of an earlier attempt for a pod."""
        dice, metadata = self._dice, pod["metadata"]
        claim = self._own_claim(pod, 9)
        if claim not in self.objects:
            return
        _for_extended_resources(claim)
        if dice.chance(0.4):
            self._allocate(claim, dice.pick(self._nodes), waits=True)
            if dice.chance(0.5):
                consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
                claim["status"]["reservedFor"] = [consumer]

    def hold(self, pod: Object) -> None:
        """Add the claim for extended resources of a pod on a node."""
        claim = self._own_claim(pod, 9)
        _for_extended_resources(claim)
        self._advance(claim, pod)

    def occupy(self, node: str) -> None:
        """Add a claim that has some devices of a node, most often one."""
        requests = [{"name": "r", "exactly": {"count": self._dice.pick((1, 1, 1, 2, 3, 7))}}]
        claim: Object = {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": f"used-{node}", "namespace": "default", "uid": f"uid-used-{node}"},
            "spec": {"devices": {"requests": requests}},
        }
        self._allocate(claim, node, waits=False)
        requests[0]["exactly"] |= {"deviceClassName": "any", "allocationMode": "ExactCount"}
        if claim["status"]["allocation"]["devices"]["results"]:
            self.objects.append(claim)

    def _status(self, entry: str, claim: str) -> list[Object]:
        """Return the entry of a pod's status; rarely there is none, or it names no claim."""
        if self._dice.chance(self._traits.missing):
            return [] if self._dice.chance(0.5) else [{"name": entry}]
        return [{"name": entry, "resourceClaimName": claim}]

    def _shared_claim(self, namespace: str) -> Object:
        shared = self._shared.setdefault(namespace, [])
        if not shared or (len(shared) < 2 and self._dice.chance(0.6)):
            shared.append(self._claim(f"shared-{len(shared)}", namespace))
        return self._dice.pick(shared)

    def _own_claim(self, pod: Object, number: int) -> Object:
        metadata = pod["metadata"]
        claim = self._claim(f"{metadata['name']}-e{number}-x", metadata["namespace"])
        uid = "uid-other" if self._dice.chance(self._traits.missing) else metadata["uid"]
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": uid,
            "controller": True,
        }  # fmt: skip
        claim["metadata"]["ownerReferences"] = [owner]
        return claim

    def _claim(self, name: str, namespace: str) -> Object:
        dice = self._dice
        wanted = dice.pick(self._forms) if dice.chance(0.5) else self._devices()
        claim: Object = {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
            "spec": {"devices": copy.deepcopy(wanted)},
        }
        if not dice.chance(self._traits.missing):
            self.objects.append(claim)
        return claim

    # What a claim asks for --------------------------------------------------------------------

    def _devices(self) -> Object:
        dice, traits = self._dice, self._traits
        requests = [self._request(f"r{number}") for number in range(dice.pick((1, 1, 1, 2, 3)))]
        wanted: Object = {"requests": requests}
        names = [each["name"] for each in requests]
        subs = [
            f"{each['name']}/{sub['name']}"
            for each in requests
            for sub in each.get("firstAvailable", ())
        ]
        if dice.chance(traits.constraints):
            wanted["constraints"] = [
                self._constraint(names, subs) for _ in range(dice.pick((1, 1, 2)))
            ]
        if dice.chance(traits.config):
            wanted["config"] = [
                {
                    **({"requests": self._some(names, subs)} if dice.chance(0.6) else {}),
                    "opaque": {"driver": "gpu.example.com", "parameters": {"number": number}},
                }
                for number in range(dice.number(1, 2))
            ]
        return wanted

    def _some(self, names: list[str], subs: list[str]) -> list[str]:
        options = [*names, *subs]
        return self._dice.some(options, 1, len(options))

    def _constraint(self, requests: list[str], subs: list[str]) -> Object:
        dice = self._dice
        kind = "matchAttribute" if dice.chance(0.6) else "distinctAttribute"
        names = (*_ATTRIBUTES, _UUID) if dice.chance(self._traits.large) else _ATTRIBUTES
        found: Object = {kind: dice.pick(names)}
        if dice.chance(0.4):
            found["requests"] = self._some(requests, subs)
        return found

    def _request(self, name: str) -> Object:
        dice, traits = self._dice, self._traits
        if dice.chance(traits.choices):
            choices = [
                {"name": f"s{number}", **self._wanted()} for number in range(dice.number(1, 3))
            ]
            return {"name": name, "firstAvailable": choices}
        exactly = self._wanted()
        if dice.chance(traits.admin):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _wanted(self) -> Object:
        dice, traits = self._dice, self._traits
        wanted: Object = {
            "deviceClassName": dice.pick(CLASSES) if dice.chance(0.98) else "absent",
            "allocationMode": "ExactCount",
            "count": dice.pick((1, 1, 1, 2, 3)),
        }
        if wanted["deviceClassName"] == "absent" and not dice.chance(traits.missing):
            wanted["deviceClassName"] = "gpu"
        if dice.chance(traits.every):
            wanted["allocationMode"] = "All"
            del wanted["count"]
        elif dice.chance(traits.many):
            wanted["count"] = dice.pick((17, 32, 33))
        elif dice.chance(traits.large):
            wanted["count"] = dice.pick((2, 3, 4, 5, 6, 7, 8, 12, 15, 16))
        if dice.chance(traits.selectors):
            wanted["selectors"] = slices.selectors(dice, traits)
        if dice.chance(traits.tolerations):
            wanted["tolerations"] = [_toleration(dice) for _ in range(dice.number(1, 2))]
        if dice.chance(traits.capacity):
            wanted["capacity"] = {"requests": self._amounts()}
        if dice.chance(traits.gated):
            wanted["derivedAttributes"] = [{"name": "example.com/x", "expression": "1"}]
        return wanted

    def _amounts(self) -> Object:
        dice = self._dice
        amounts: Object = {}
        if dice.chance(0.9):
            amounts["memory"] = dice.pick(
                ("1Gi", "1536Mi", "2Gi", "3Gi", "5Gi", "7Gi", "12Gi", "512Mi", "1G", "0")
            )
        if dice.chance(0.2):
            amounts["bandwidth"] = dice.pick(("1G", "1500M", "100"))
        if dice.chance(0.2):
            amounts["cores"] = dice.pick(("1500m", "1", "300m", "1200m", "2"))
        if dice.chance(self._traits.odd_amounts):
            amounts["memory"] = dice.pick(("1e19", "9223372036854775807", "-1Gi"))
        return amounts

    # What a claim has -------------------------------------------------------------------------

    def _advance(self, claim: Object, pod: Object) -> None:
        """Give a claim the status that fits a pod that uses it."""
        dice, traits = self._dice, self._traits
        if dice.chance(traits.missing / 2):
            claim["metadata"] |= {
                "deletionTimestamp": _LONG_AGO,
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            }
        node = pod["spec"].get("nodeName")
        consumer = {
            "resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
        }  # fmt: skip
        if node is None and not dice.chance(traits.allocated):
            return
        if "status" not in claim:
            # Elsewhere than on the chosen node, too: a claim may be used on several.
            self._allocate(claim, node or dice.pick(self._nodes), waits=node is None)
        reserved = claim["status"].setdefault("reservedFor", [])
        if node is not None:
            if dice.chance(0.95):
                reserved.append(consumer)
        elif dice.chance(0.3):
            if self._is_ready(claim):
                reserved.append(consumer)
        elif dice.chance(0.2):
            reserved.append({"resource": "pods", "name": "other", "uid": f"uid-{len(reserved)}-o"})
            if dice.chance(0.1):
                reserved += [
                    {"resource": "pods", "name": f"other-{number}", "uid": f"uid-m-{number}"}
                    for number in range(_MOST_CONSUMERS - len(reserved))
                ]

    def _is_ready(self, claim: Object) -> bool:
        """Return whether a pod for which the claim is reserved need not wait for devices."""
        results = claim["status"]["allocation"]["devices"]["results"]
        return not any(result.get("bindingConditions") for result in results)

    def _allocate(self, claim: Object, node: str, *, waits: bool) -> None:
        dice, traits = self._dice, self._traits
        local = self._pools.devices.get(node, [])
        reachable = [*local, *self._pools.devices.get("", [])]
        results = []
        for request in claim["spec"]["devices"]["requests"]:
            name = request["name"]
            wanted = request.get("exactly")
            if wanted is None:
                wanted = dice.pick(request["firstAvailable"])
                name = f"{name}/{wanted['name']}"
            most = 32 if dice.chance(traits.large) else 2
            for _ in range(min(most, wanted.get("count", 1))):
                results += self._result(name, wanted, reachable)
                # A claim has no device twice.
                has = {(each["driver"], each["pool"], each["device"]) for each in results}
                reachable = [
                    each for each in reachable if (each[0], each[1], each[2]["name"]) not in has
                ]
        allocation: Object = {"devices": {"results": results}}
        if any(result["pool"] == node for result in results):
            allocation["nodeSelector"] = _only(node)
        elif dice.chance(0.5):
            expression = {"key": ZONE, "operator": "In", "values": ["z1", "z2"]}
            terms = [{"matchExpressions": [expression]}]
            allocation["nodeSelector"] = {"nodeSelectorTerms": terms}
        status: Object = {"allocation": allocation}
        if any(result.get("bindingConditions") for result in results):
            allocation["allocationTimestamp"] = dice.pick((_LATER, _LATER, _LONG_AGO))
            if waits and dice.chance(0.6):
                status["devices"] = [_told(dice, each) for each in results if dice.chance(0.8)]
        claim["metadata"].setdefault("finalizers", ["resource.kubernetes.io/delete-protection"])
        claim["status"] = status

    def _result(
        self, name: str, wanted: Object, reachable: list[tuple[str, str, Object]]
    ) -> list[Object]:
        dice = self._dice
        options = [
            each for each in reachable if (each[0], each[1], each[2]["name"]) not in self._taken
        ]
        if not options:
            return []
        driver, pool, device = dice.pick(options)
        result: Object = {
            "request": name, "driver": driver, "pool": pool, "device": device["name"],
        }  # fmt: skip
        for key in ("bindingConditions", "bindingFailureConditions"):
            if key in device:
                result[key] = device[key]
        if wanted.get("adminAccess"):
            result["adminAccess"] = True
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-4000-8000-{dice.number(0, 10**9):012}"
            if "capacity" in device:
                result["consumedCapacity"] = {
                    key: dice.pick(("1Gi", "2Gi", "512Mi")) if key == "memory" else "1"
                    for key in device["capacity"]
                }
        elif not wanted.get("adminAccess"):
            self._taken.add((driver, pool, device["name"]))
        return [result]


def _for_extended_resources(claim: Object) -> None:
    """Let a claim be one that the scheduler has made."""
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim["metadata"]["annotations"] = annotations
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "container-0-request-0", "exactly": wanted}]
    claim["spec"]["devices"] = {"requests": requests}


def _told(dice: Dice, result: Object) -> Object:
    """Return what a driver says of a device."""
    conditions = [
        {"type": kind, "status": dice.pick(("True", "True", "False", "Unknown"))}
        for kind in (
            *result.get("bindingConditions", ()),
            *result.get("bindingFailureConditions", ()),
        )
        if dice.chance(0.6)
    ]
    stamped = [
        each | {"reason": "Test", "message": "told", "lastTransitionTime": _LONG_AGO}
        for each in conditions
    ]
    return {
        "driver": result["driver"], "pool": result["pool"], "device": result["device"],
        "conditions": stamped,
    }  # fmt: skip


def _only(node: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _toleration(dice: Dice) -> Object:
    key, value = dice.pick(TAINTS)
    toleration: Object = {"operator": "Exists"}
    if dice.chance(0.9):
        toleration["key"] = key
        if value and dice.chance(0.5):
            toleration |= {"operator": "Equal", "value": value}
    if dice.chance(0.4):
        toleration["effect"] = dice.pick(("NoSchedule", "NoExecute"))
        if toleration["effect"] == "NoExecute" and dice.chance(0.5):
            toleration["tolerationSeconds"] = 60
    return toleration


def request(dice: Dice, pod: Object) -> None:
    """Let containers request extended resources that classes may provide."""
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    for container in containers:
        for name in (GPU, FPGA, f"{_IMPLICIT}gpu", f"{_IMPLICIT}big", f"{_IMPLICIT}absent"):
            rare = name.endswith("absent")
            if dice.chance(0.01 if rare else 0.25):
                amount = dice.pick(("1", "1", "2", "0"))
                resources = container.setdefault("resources", {})
                for kind in ("requests", "limits"):
                    resources.setdefault(kind, {})[name] = amount
