"""Objects from files: what is read, and where a problem lies."""

import io
from pathlib import Path

import pytest

from scheduler.sim import manifests
from scheduler.sim.manifests import ManifestError, Manifests
from tests.support.typed import typed

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a file, and makes its folder the present one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes, name: str = "f.yaml") -> str:
        data = text.encode() if isinstance(text, str) else text
        Path(name).write_bytes(data)
        return name

    return write


def names(found: Manifests) -> dict[str, list[str]]:
    return {
        "pods": [each.metadata.name for each in found.pods],
        "nodes": [each.metadata.name for each in found.nodes],
        "namespaces": [each.metadata.name for each in found.namespaces],
        "budgets": [each.metadata.name for each in found.pdbs],
    }


def test_several_documents_are_read_in_order(written):
    text = f"{POD}---\n{NODE}---\n{POD.replace('name: p', 'name: q')}"

    assert names(manifests.read([written(text)])) == {
        "pods": ["p", "q"], "nodes": ["n1"], "namespaces": [], "budgets": [],
    }  # fmt: skip


POLICY = "apiVersion: preemptive-scheduler.io/v1alpha1\nkind: PreemptionPolicy\n"


def test_preemption_policies_are_read(written):
    text = f"{POLICY}metadata: {{name: p}}\nspec: {{maxVictimsPerPreemption: 2}}"

    (found,) = manifests.read([written(text)]).policies

    assert (found.name, found.max_victims_per_preemption) == ("p", 2)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        pytest.param(
            "metadata: {name: p}\nspec: {mode: Soft, victimMinRuntime: -1s}",
            "spec.mode: ",
            id="every problem of one that would be refused",
        ),
        pytest.param("spec: {}", "metadata.name is missing", id="one without a name"),
    ],
)
def test_a_policy_that_would_be_refused_is_a_bad_manifest(written, rest, problem):
    with pytest.raises(ManifestError, match=r"^f\.yaml:1: PreemptionPolicy: ") as caught:
        manifests.read([written(POLICY + rest)])

    assert problem in str(caught.value)
    assert ("spec.victimMinRuntime: " in str(caught.value)) == ("mode" in rest)


def test_several_files_are_one_cluster(written):
    files = [written(POD, "a.yaml"), written(NODE, "b.yaml")]

    found = manifests.read(files)

    assert (len(found.pods), len(found.nodes)) == (1, 1)


def test_lists_are_read_as_their_items(written):
    inner = "{apiVersion: v1, kind: NodeList, items: [{kind: Node, metadata: {name: n1}}]}"
    text = (
        f"kind: List\nitems:\n- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}}}\n- {inner}\n"
    )

    assert names(manifests.read([written(text)]))["pods"] == ["p"]
    assert names(manifests.read(["f.yaml"]))["nodes"] == ["n1"]


def test_json_is_read(written):
    text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": null}'

    assert names(manifests.read([written(text)]))["pods"] == ["p"]


def test_every_kind_that_a_rule_reads_is_read(written):
    text = (
        "{apiVersion: v1, kind: Namespace, metadata: {name: team}}\n---\n"
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}}\n---\n"
        "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus},"
        " spec: {extendedResourceName: example.com/gpu}}\n"
    )

    found = manifests.read([written(text)])

    assert (names(found)["namespaces"], names(found)["budgets"]) == (["team"], ["b"])
    (gpus,) = found.device_classes
    assert gpus.spec.extended_resource_name == "example.com/gpu"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\n",
        "# nothing\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
        "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n",
        "kind: List\nitems: []\n",
    ],
    ids=["nothing", "empty documents", "a comment", "another kind", "another version", "no items"],
)
def test_what_no_rule_reads_is_skipped(written, text):
    assert not any(names(manifests.read([written(text)])).values())


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))

    assert names(manifests.read(["-"]))["pods"] == ["p"]


def test_objects_in_memory_are_read_as_those_in_files():
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in "ab"]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": None}}

    found = typed([{"kind": "PodList", "items": pods}, node])

    assert names(found) == {"pods": ["a", "b"], "nodes": ["n"], "namespaces": [], "budgets": []}


def test_a_problem_in_memory_is_reported_with_its_position():
    with pytest.raises(ManifestError, match=r"^objects\[1\]: not a Kubernetes object"):
        typed([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}, {}])


def test_a_pod_gets_the_namespace_and_the_uid_that_it_lacks(written):
    (pod,) = manifests.read([written(POD)]).pods

    assert pod.metadata.namespace == "default"
    assert pod.uid
    assert manifests.read(["f.yaml"]).pods[0].uid == pod.uid


def test_pods_of_one_name_in_two_namespaces_are_two_pods(written):
    other = POD.replace("name: p", "name: p, namespace: team")

    first, second = manifests.read([written(f"{POD}---\n{other}")]).pods

    assert first.uid != second.uid


def test_a_uid_that_is_there_is_kept(written):
    text = POD.replace("name: p", "name: p, uid: abc, namespace: team")

    (pod,) = manifests.read([written(text)]).pods

    assert (pod.uid, pod.metadata.namespace) == ("abc", "team")


def test_a_budget_gets_the_namespace_that_it_lacks(written):
    text = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}}"

    assert manifests.read([written(text)]).pdbs[0].metadata.namespace == "default"


def test_yaml_time_stamps_and_numbers_are_taken_as_they_are_meant(written):
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-01T00:00:05Z}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1.5, memory: 1024}}}]}\n"
    )

    (pod,) = manifests.read([written(text)]).pods

    assert pod.metadata.creation_timestamp == "2026-01-01T00:00:05+00:00"
    assert pod.spec.containers[0].resources.requests == {"cpu": 1.5, "memory": 1024}


# Problems: one line each, with the place


PROBLEMS = {
    "no mapping": ("- a\n", "f.yaml:1: a list is not a Kubernetes object"),
    "no kind": (f"{POD}---\nmetadata: {{}}\n", "f.yaml:5: not a Kubernetes object (no kind)"),
    "an odd kind": ("kind: [Pod]\n", "f.yaml:1: not a Kubernetes object (no kind)"),
    "an odd version": (
        "kind: Pod\napiVersion: [v1]\n",
        "f.yaml:1: Pod: apiVersion is not a string",
    ),
    "no version": ("kind: Pod\nmetadata: {name: p}\n", "f.yaml:1: Pod: apiVersion is missing"),
    "no name": (
        "apiVersion: v1\nkind: Pod\nmetadata: {}\n",
        "f.yaml:1: Pod: metadata.name is missing",
    ),
    "a wrong type": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 5}\n",
        "f.yaml:1: Pod: Expected `array`, got `int` - at `$.spec.containers`",
    ),
    "a pod with an odd amount": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{resources: {requests: {cpu: lots}}}]}\n",
        "f.yaml:1: Pod: 'lots' is not a quantity",
    ),
    "a node with an odd amount": (
        f"{POD}---\n{NODE}status: {{allocatable: {{cpu: 1x}}}}\n",
        "f.yaml:5: Node: '1x' is not a quantity",
    ),
    "an item of a list": (
        "kind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"
        "- {metadata: {}}\n",
        "f.yaml:1: items[1]: not a Kubernetes object (no kind)",
    ),
    "no YAML": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p\n",
        "f.yaml:4: did not find expected ',' or '}'",
    ),
    "a tab": ("kind: Pod\n\tmetadata: {}\n", None),
    "a tag": ("!!python/object:os.system {}\n", None),
    "a control character": ("kind: P\x01od\n", None),
    "a year that is none": ("kind: Pod\nmetadata: {creationTimestamp: 2026-13-99}\n", None),
    "a list that holds itself": (
        "&a {kind: List, items: [*a]}\n",
        "f.yaml:1: a value contains itself",
    ),
    "deep nesting": (f"{POD}spec: {'[' * 3000}{']' * 3000}\n", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_is_one_line_that_says_where(written, text, want):
    with pytest.raises(ManifestError) as caught:
        manifests.read([written(text)])

    message = str(caught.value)
    assert message.startswith("f.yaml:")
    assert "\n" not in message
    assert want is None or message == want


def test_a_file_that_is_not_there_is_a_problem(written):
    with pytest.raises(ManifestError, match=r"^nowhere.yaml: No such file or directory$"):
        manifests.read(["nowhere.yaml"])


def test_a_folder_is_a_problem(written):
    Path("folder").mkdir()

    with pytest.raises(ManifestError, match=r"^folder: Is a directory$"):
        manifests.read(["folder"])


def test_a_file_in_another_encoding_is_a_problem(written):
    with pytest.raises(ManifestError, match=r"^f.yaml: not UTF-8$"):
        manifests.read([written(b"kind: P\xff\n")])


def test_a_problem_of_standard_input_says_so(monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b"apiVersion: v1\nkind: Pod\nmetadata: {}\n"))
    )

    with pytest.raises(ManifestError, match=r"^standard input:1: Pod: metadata.name is missing$"):
        manifests.read(["-"])
