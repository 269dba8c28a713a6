"""Makes pods from workload objects, and applies the defaults of the API server to new objects.

`workload_kinds` says how many pods there are. Other objects that controllers create are created if
a rule reads them: the ReplicaSet of a Deployment, and the claims of templates.

Source: kube-controller-manager v1.36.3 pkg/controller: resourceclaim, volume/ephemeral.
"""

import itertools
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.config import policies
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import Node, Pod
from scheduler.sim import defaults, known_kinds, object_fields, workload_kinds
from scheduler.sim.defaults import Json, Priorities, mapping, sequence
from scheduler.sim.expanded import Expanded
from scheduler.sim.known_kinds import UnknownKinds
from scheduler.sim.manifests import ManifestError, Manifests, flattened, without_nulls
from scheduler.sim.recreation import suffix
from scheduler.sim.workload_kinds import Around
from scheduler.sim.workload_objects import (
    CheckedPod,
    Existing,
    MadePod,
    Template,
    Workload,
    has_pods,
    owned_object,
    size_of,
    uid_of,
)

__all__ = ["MAX_PODS", "TooManyPodsError", "expand"]

#: The most new pods at once, given or made.
MAX_PODS: Final = 10_000
#: The most values in the templates of all new pods together.
MAX_VALUES: Final = 2_000_000

#: How many objects that are given twice are named.
_MAX_FORMER: Final = 20
#: Kinds without a namespace.
_CLUSTER_SCOPED: Final = frozenset(
    {
        "CSIDriver", "CSINode", "DeviceClass", "DeviceTaintRule", "Namespace", "Node",
        "PersistentVolume", "PriorityClass", "ResourceSlice", "RuntimeClass", "StorageClass",
        "VolumeAttachment", policies.KIND,
    }
)  # fmt: skip


class TooManyPodsError(ManifestError):
    """More than `MAX_PODS` pods, or more of something else that takes long."""


def expand(
    documents: Iterable[tuple[str, Any]],
    existing: Manifests,
    created: str,
    namespace: str = "default",
    max_objects: int | None = None,
    *,
    strict: bool = False,
) -> Expanded:
    """Make the pods of workloads, and apply the defaults of the API server to new objects.

    Objects with a uid come from an API server, and are taken as they are.

    Args:
        documents: Pairs of a document's place, which errors name, and the document.
        existing: The objects that exist beside the given ones.
        created: The creation time of the pods of workloads.
        namespace: That of objects without one.
        max_objects: How many documents there may be, those of lists too.
        strict: Whether new objects must have no unknown fields, and all that are required.

    Raises:
        ManifestError: A document is invalid.
        TooManyPodsError: There are more than `MAX_PODS` new pods.
    """
    problem = known_kinds.problem_of_namespace(namespace)
    if problem:
        raise ManifestError(problem)
    where = ""
    try:
        flat: list[tuple[str, Json]] = []
        for where, document in documents:
            flat += flattened(document, where)
        if max_objects is not None and len(flat) > max_objects:
            raise TooManyPodsError(f"{len(flat)} objects; at most {max_objects} are planned")
        if strict:
            object_fields.check(flat)
        return _Expansion(flat, existing, created, namespace).run()
    except RecursionError as error:
        raise ManifestError(f"{where}: nested too deeply") from error


class _Expansion:
    """One call of `expand`."""

    def __init__(
        self, flat: list[tuple[str, Json]], existing: Manifests, created: str, namespace: str
    ) -> None:
        self._existing = existing
        self._created = created
        self._namespace = namespace
        self._flat = flat
        self._result = Expanded()
        self._pods = 0
        #: The values of all new pods, and those of each pod of the workload that is expanded.
        self._values = 0
        self._each = 0
        self._priorities = Priorities()
        self._claim_templates: dict[str, Json] = {}
        self._around = Around(self._count)

    def run(self) -> Expanded:
        """Expand all documents."""
        for where, document in self._flat:
            problem = known_kinds.problem_of_metadata(document)
            if problem:
                raise ManifestError(f"{where}: {document['kind']}: {problem}")
        self._drop_former()
        self._look_around()
        unknown = UnknownKinds()
        for where, document in self._flat:
            problem = self._problem_of_kind(document)
            if problem:
                kind, version = document["kind"], document["apiVersion"]
                unknown.note(kind, version, f"{where}: {problem}")
            else:
                self._take(document, where)
        for text in unknown.warnings():
            self._result.warn(text)
        for name in sorted(self._priorities.unknown):
            self._result.warn(
                f"PriorityClass {name} is not among the objects and no pod has it; it counts as 0"
            )
        return self._result

    def _problem_of_kind(self, document: Json) -> str:
        """Return why no pods are made of an object whose kind is not known; empty if it is."""
        kind, version = document["kind"], document["apiVersion"]
        problem = known_kinds.unknown(kind, version)
        if problem and has_pods(document):
            return f"{kind} {self._key(document)} is not simulated: its pods are not known"
        return problem

    def _take(self, document: Json, where: str) -> None:
        """Take an object of a known kind, with what is made of it."""
        kind, version = document["kind"], document["apiVersion"]
        group = version.partition("/")[0] if "/" in version else ""
        if kind == "Pod":
            self._take_pod(document, where)
        elif kind == "ResourceClaim":
            spec = defaults.claim(mapping(without_nulls(document).get("spec")))
            self._result.documents.append((where, {**self._placed(document), "spec": spec}))
        elif (group, kind) in workload_kinds.KINDS:
            self._take_workload(document, where, group)
        else:
            self._result.documents.append((where, self._placed(document)))

    def _drop_former(self) -> None:
        """Keep the last one of new objects of one name, as if they were applied one by one."""
        last: dict[tuple[str, str, str], int] = {}
        former: dict[int, int] = {}
        for index, (_, document) in enumerate(self._flat):
            if document["metadata"].get("uid"):
                continue
            kind, key = document["kind"], self._key(document)
            if kind in _CLUSTER_SCOPED:
                key = key.partition("/")[2]
            before = last.get((document["apiVersion"], kind, key))
            if before is not None:
                former[before] = index
            last[document["apiVersion"], kind, key] = index
        for before, index in itertools.islice(former.items(), _MAX_FORMER):
            where, document = self._flat[index]
            self._result.warn(
                f"{where}: {document['kind']} {self._key(document)} is already defined"
                f" at {self._flat[before][0]}; the last definition is used"
            )
        if len(former) > _MAX_FORMER:
            self._result.warn(f"{len(former) - _MAX_FORMER} more objects are already defined")
        if former:
            self._flat = [each for index, each in enumerate(self._flat) if index not in former]

    # What there is --------------------------------------------------------------------------------

    def _look_around(self) -> None:
        """Index the objects that pods of workloads depend on."""
        for pod in self._existing.pods:
            self._index(pod)
        self._around.nodes |= {node.metadata.name: node for node in self._existing.nodes}
        self._priorities.learn(self._existing.pods)
        for _, document in self._flat:
            kind = document["kind"]
            if kind == "PriorityClass":
                self._priorities.add(document)
            elif kind == "ResourceClaimTemplate":
                self._claim_templates[self._key(document)] = document
            elif kind == "Node" or (kind == "Pod" and mapping(document.get("metadata")).get("uid")):
                self._note(document)

    def _note(self, document: Json) -> None:
        """Note a node, or a pod that exists already, among the documents."""
        type_: type[Node | Pod] = Node if document["kind"] == "Node" else Pod
        try:
            found = msgspec.convert(without_nulls(document), type_, strict=False)
        except msgspec.ValidationError:
            return  # it is reported where it is read
        if isinstance(found, Node):
            self._around.nodes[found.metadata.name] = found
        else:
            self._index(found)
            self._priorities.learn((found,))

    def _index(self, pod: Pod) -> None:
        found = Existing.of(pod)
        if found.controller is None or not found.active:
            return
        self._around.owned.setdefault(found.controller, []).append(found)
        if found.deployment:
            _, namespace, name = found.controller
            sets = self._around.replica_sets.setdefault((namespace, found.deployment), [])
            if name not in sets:
                sets.append(name)

    # Pods -----------------------------------------------------------------------------------------

    def _take_pod(self, document: Json, where: str) -> None:
        document = self._placed(without_nulls(document))
        if not mapping(document.get("metadata")).get("uid"):
            self._count(1)
            document = self._admitted(document, where)
        self._result.documents.append((where, document))

    def _take_workload(self, document: Json, where: str, group: str) -> None:
        document = self._placed(without_nulls(document))
        kind = document["kind"]
        if (document["apiVersion"], kind) in KINDS.values():
            self._result.documents.append((where, document))  # a rule reads its selector
        workload = _converted(document, where)
        if not _has_own_pods(workload):
            return
        self._each = size_of(document)
        try:
            made = workload_kinds.KINDS[group, kind](workload, self._around)
        except TooManyPodsError:
            raise
        except ManifestError as error:
            raise ManifestError(f"{where}: {kind}: {error}") from error
        finally:
            self._each = 0
        for warning in made.warnings:
            text = f"{kind} {workload.metadata.key} {warning}"
            self._result.warn_about(text, workload.metadata.namespace)
        for each in made.objects:
            self._add_object(each, where)
        place = f"{where}: {kind} {workload.metadata.key}"
        for pod in made.pods:
            self._add_pod(workload, made.template, pod, place)

    def _add_pod(self, workload: Workload, template: Template, pod: MadePod, where: str) -> None:
        """Add one pod of a workload."""
        namespace, owner = workload.metadata.namespace, pod.owner
        metadata = {
            "name": pod.name,
            "namespace": namespace,
            "uid": uid_of("pod", namespace, pod.name),
            "labels": dict(pod.labels),
            "ownerReferences": [] if owner is None else [owner.reference()],
            "creationTimestamp": self._created,
        }
        spec = {**template.spec, **pod.change}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._result.documents.append((where, self._admitted(document, where)))
        source = f"{workload.kind}/{workload.metadata.name}"
        self._result.sources[f"{namespace}/{pod.name}"] = source

    def _admitted(self, document: Json, where: str) -> Json:
        """Return a new pod with all defaults, and add its claims.

        Raises:
            ManifestError: A field has another type than in the API.
        """
        try:
            msgspec.convert(document, CheckedPod, strict=False)
            msgspec.convert(document, Pod, strict=False)
        except msgspec.ValidationError as error:
            raise ManifestError(f"{where}: {document['kind']}: {error}") from error
        document = defaults.pod(document, self._priorities)
        self._add_claims(document, where)
        return document

    def _count(self, pods: int) -> None:
        self._pods += pods
        if self._pods > MAX_PODS:
            raise TooManyPodsError(f"{self._pods} pods or more; at most {MAX_PODS} are planned")
        self._values += pods * self._each
        if self._values > MAX_VALUES:
            raise TooManyPodsError(
                f"the pods have more than {MAX_VALUES} values together: plan fewer at once"
            )

    # Claims ---------------------------------------------------------------------------------------

    def _add_claims(self, pod: Json, where: str) -> None:
        """Generate the claims of a new pod that are made from templates."""
        metadata, spec = pod["metadata"], pod["spec"]
        metadata.setdefault("uid", uid_of("pod", metadata["namespace"], metadata["name"]))
        statuses = []
        for entry in sequence(spec.get("resourceClaims")):
            name = self._add_device_claim(pod, entry, where)
            if name:
                statuses.append({"name": entry.get("name", ""), "resourceClaimName": name})
        if statuses:
            pod["status"] = {**mapping(pod.get("status")), "resourceClaimStatuses": statuses}
        for volume in sequence(spec.get("volumes")):
            template = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
            if template:
                name = f"{metadata['name']}-{volume.get('name')}"
                body = mapping(template.get("spec"))
                claim = owned_object("v1", "PersistentVolumeClaim", name, pod, body)
                self._add_object(claim, where)
        if spec.get("runtimeClassName") and "overhead" not in spec:
            self._result.warn(
                f"RuntimeClass {spec['runtimeClassName']} is not known, so its overhead and its"
                " nodes do not count"
            )

    def _add_device_claim(self, pod: Json, entry: Json, where: str) -> str:
        """Add the claim for an entry of a pod; return its name, empty if none is made."""
        template, namespace = entry.get("resourceClaimTemplateName"), pod["metadata"]["namespace"]
        if template is None:
            return ""
        found = self._claim_templates.get(f"{namespace}/{template}")
        if found is None:
            self._result.warn(
                f"ResourceClaimTemplate {namespace}/{template} is not among the objects, so its"
                " claims are missing"
            )
            return ""
        metadata, request = pod["metadata"], str(entry.get("name", ""))
        name = f"{metadata['name']}-{request}-{suffix(metadata['uid'] + request)}"
        spec = defaults.claim(mapping(mapping(without_nulls(found).get("spec")).get("spec")))
        claim = owned_object("resource.k8s.io/v1", "ResourceClaim", name, pod, spec)
        self._add_object(claim, where)
        return name

    def _add_object(self, document: Json, where: str) -> None:
        spec = document["spec"]
        if document["kind"] == "PersistentVolumeClaim" and spec.get("storageClassName") is None:
            self._result.warn(
                "volume claims without storageClassName are planned without a class: the default"
                " class of the cluster is not known"
            )
        self._result.documents.append((where, document))

    # Helpers --------------------------------------------------------------------------------------

    def _placed(self, document: Json) -> Json:
        """Return an object with metadata of its own, and with a namespace if it can have one."""
        metadata = mapping(document.get("metadata"))
        if document["kind"] in _CLUSTER_SCOPED or not metadata:
            return document
        namespace = metadata.get("namespace") or self._namespace
        placed = {**metadata, "namespace": namespace}
        return {**document, "metadata": placed}

    def _key(self, document: Json) -> str:
        metadata = mapping(document.get("metadata"))
        return f"{metadata.get('namespace') or self._namespace}/{metadata.get('name')}"


def _converted(document: Json, where: str) -> Workload:
    """Return a workload.

    Raises:
        ManifestError: It has no name, or a field has another type than in the API.
    """
    try:
        workload = msgspec.convert(document, Workload, strict=False)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: {document['kind']}: {error}") from error
    if not workload.metadata.name:
        raise ManifestError(f"{where}: {document['kind']}: metadata.name is missing")
    return workload


def _has_own_pods(workload: Workload) -> bool:
    """Return whether the pods of a workload are made from it.

    An object with an owner has pods only if the owner has, which is given, or else the pods are.
    Objects of a snapshot have no templates.
    """
    if any(owner.controller for owner in workload.metadata.owner_references):
        return False
    return workload.kind in ("PodTemplate", "CronJob") or workload.spec.template is not None
