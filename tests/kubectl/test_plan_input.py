"""Where plans read objects from: files, folders, kustomizations; and hostile YAML."""

import argparse
from pathlib import Path

import pytest

from scheduler.kubectl import plan_input
from scheduler.kubectl.errors import CommandError

OBJECT = "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n"
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return the names and places of the objects that flags name, below an empty folder."""
    monkeypatch.chdir(tmp_path)

    def read(*flags: str) -> list[tuple[str, str]]:
        parser = argparse.ArgumentParser()
        plan_input.add_flags(parser)
        found = plan_input.loaded(parser.parse_args(flags))
        return [(place, document["metadata"]["name"]) for place, document in found]

    return read


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path(name.replace("__", "/").replace("_", "."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_folder_stands_for_its_files_and_recursively_for_those_of_its_folders(read):
    write(d__b_yml=OBJECT % "b", d__a_json='{"metadata": {"name": "a"}}', d__note_txt="x: [",
          d__c__d_yaml=f"---\n---\n{OBJECT % 'd'}")  # fmt: skip
    Path("d/loop").symlink_to("../d")

    assert read("-f", "d") == [("d/a.json:1", "a"), ("d/b.yml:1", "b")]
    assert read("-f", "d", "-R")[2:] == [("d/c/d.yaml:3", "d")]


def test_a_kustomization_is_built_by_kubectl(read, monkeypatch):
    script = '#!/bin/sh\n[ "$1 $2 $3" = "kustomize -- k" ] && echo '
    write(bin__kubectl=f'{script}"{OBJECT % "k"}"')
    Path("bin/kubectl").chmod(0o755)

    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:/bin:/usr/bin")
    assert read("-k", "k") == [("kustomize k:1", "k")]
    with pytest.raises(CommandError, match="kubectl kustomize other: "):
        read("-k", "other")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match="-k needs kubectl, which is not in the PATH"):
        read("-k", "k")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BOMB, "more than 1000", id="aliases that stand for a lot"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep YAML"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="deep JSON"),
        pytest.param("kind: A\nkind: B\n", "f.yaml:1: an object has the key 'kind' twice",
                     id="a key twice"),
        pytest.param("&a [*a]", "a value contains itself", id="a circle"),
        pytest.param("", "f.yaml: nothing to plan", id="nothing"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_in_one_line(read, text, problem):
    write(f_yaml=text)

    with pytest.raises(CommandError, match=problem) as refused:
        read("-f", "f.yaml")
    assert "\n" not in str(refused.value)


def test_a_folder_without_objects_and_a_link_to_itself_are_refused(read):
    write(d__a_txt="")
    with pytest.raises(CommandError, match=r"d: no file ends with \.json") as refused:
        read("-f", "d")
    assert "-R" in refused.value.advice
    Path("d/x.yaml").symlink_to("x.yaml")
    with pytest.raises(CommandError, match="Too many levels"):
        read("-f", "d")
