"""`make image`: which engine it takes, what it asks of it, and what the Dockerfile promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tools.release import image, image_base
from deploy.tools.release.image import ImageError, Request

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
REQUEST = Request(tag="a/b:1", version="1", revision="abc")


class Machine:
    """A machine whose PATH has what a test puts there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, engine: str, script: str = "exit 0") -> None:
        file = self.path / engine
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def find(self, wanted: str = "") -> str:
        return image.find_engine(wanted, {"PATH": str(self.path)})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def instructions(stage: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage: name and arguments."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", stage, flags=re.MULTILINE))
    parted = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [(name, arguments.strip()) for name, _, arguments in parted]


#: Imports all of ours, with all that it imports, and what it imports late; not what the arguments
#: name, nor tests.
WITHOUT = """
import importlib, pkgutil, sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        dropped = any(f"{name}.".startswith(f"{each}.") for each in sys.argv[1:])
        if dropped or "tests" in name.split("."):
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Gone())
import scheduler
for module in pkgutil.walk_packages(scheduler.__path__, "scheduler."):
    importlib.import_module(module.name)
import kopf, kubernetes.client, kubernetes.config
assert "kubernetes.client.models" in sys.modules
print("all imported")
"""

BUILD, FINAL = (
    instructions(f"FROM{stage}") for stage in re.split(r"^FROM", DOCKERFILE, flags=re.M)[1:]
)


def test_the_first_engine_that_works_is_taken(machine: Machine):
    machine.has("podman")
    machine.has("buildah")

    assert machine.find() == "podman"


def test_a_client_without_its_daemon_is_no_engine(machine: Machine):
    machine.has("docker", "echo is the daemon running? >&2; exit 1")
    machine.has("buildah")

    assert machine.find() == "buildah"


def test_the_engine_that_was_asked_for_is_taken(machine: Machine):
    machine.has("docker")
    machine.has("podman")

    assert machine.find("podman") == "podman"


def test_without_an_engine_every_one_is_named_with_what_is_wrong(machine: Machine):
    machine.has("docker", "echo is the daemon running? >&2; exit 1")

    with pytest.raises(ImageError) as refusal:
        machine.find()

    assert str(refusal.value).splitlines() == [
        "no container engine works here",
        "  docker: is the daemon running?",
        "  podman: is not on PATH",
        "  buildah: is not on PATH",
    ]


def test_an_unknown_engine_is_refused(machine: Machine):
    with pytest.raises(ImageError, match=r"ENGINE=kaniko is not known \(known: docker"):
        machine.find("kaniko")


@pytest.mark.parametrize(
    ("engine", "want"),
    [
        ("docker", ["docker", "build"]),
        ("podman", ["podman", "build"]),
        ("buildah", ["buildah", "bud", "--layers"]),
    ],
)
def test_each_engine_is_asked_in_its_words(engine: str, want: list[str]):
    assert image.command(engine, REQUEST) == [
        *want,
        "--file=Dockerfile",
        "--tag=a/b:1",
        "--build-arg=VERSION=1",
        "--build-arg=REVISION=abc",
        ".",
    ]


def test_what_the_network_needs_is_handed_over_as_a_secret():
    request = Request(
        tag="a", version="1", revision="r", base="b", ca_bundle="/ca.pem", pip_conf="/pip.conf",
        flags=("--isolation=chroot",),
    )  # fmt: skip

    asked = image.command("buildah", request)

    assert "--build-arg=PYTHON_IMAGE=b" in asked
    assert asked[-4:] == [
        "--secret=id=cabundle,src=/ca.pem",
        "--secret=id=pipconf,src=/pip.conf",
        "--isolation=chroot",
        ".",
    ]
    for name in re.findall(r"id=(\w+)", " ".join(asked)):
        assert f"type=secret,id={name}," in DOCKERFILE


def test_arguments_are_those_of_the_dockerfile():
    request = Request(tag="a", version="1", revision="r", base="b", epoch="1")

    asked = image.command("docker", request)

    named = {each.split("=")[1] for each in asked if each.startswith("--build-arg")}
    assert named == set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))


def test_the_image_runs_as_a_number_and_not_as_root():
    # The kubelet refuses a name under runAsNonRoot: it cannot resolve it to an ID.
    assert [arguments for name, arguments in FINAL if name == "USER"] == ["65532:65532"]


def test_nothing_in_the_image_needs_a_shell():
    names = [name for name, _ in FINAL]

    assert "RUN" not in names
    for name in ("ENTRYPOINT", "CMD"):
        (arguments,) = (each for key, each in FINAL if key == name)
        assert arguments.startswith("[")


def test_the_image_takes_only_what_was_installed_from_the_build():
    copied = [arguments for name, arguments in FINAL if name == "COPY"]

    assert copied == ["--from=build /opt/app /opt/app"]
    assert "--without-pip /opt/app" in DOCKERFILE


def test_dependencies_are_installed_by_hash_and_nothing_is_compiled_from_source():
    installs = re.findall(r"install\b[^&]*?-r \S+", DOCKERFILE)

    assert len(installs) == 2
    for each in installs:
        assert "--require-hashes" in each
        assert "--only-binary=:all:" in each


def test_nothing_that_runs_needs_what_the_image_leaves_out():
    (given,) = (arguments for name, arguments in BUILD if "rm -rf" in arguments)
    assert "-type d -name tests -prune" in given
    dropped = re.findall(r"rm -rf \S+/site-packages/(\S+)", given)
    assert dropped

    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT, *(each.replace("/", ".") for each in dropped)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "all imported\n"


def test_bytecode_is_looked_for_where_the_build_puts_it():
    (environment,) = (arguments for name, arguments in FINAL if name == "ENV")
    installed, ours = (arguments for name, arguments in BUILD if "compileall" in arguments)

    (prefix,) = re.findall(r"PYTHONPYCACHEPREFIX=(\S+)", environment)
    for compiled in (installed, ours):
        assert f"PYTHONPYCACHEPREFIX={prefix} " in compiled
        assert "--invalidation-mode unchecked-hash" in compiled
    # Python's own modules, too, for which no slim base brings any.
    assert 'get_path("stdlib")' in installed
    assert ours.endswith("/site-packages/scheduler")


def test_what_is_in_it_is_told_in_it():
    (given,) = (arguments for name, arguments in BUILD if "sbom.py" in arguments and name == "RUN")
    labels = " ".join(arguments for name, arguments in FINAL if name == "LABEL")

    (file,) = re.findall(r"> (\S+\.cdx\.json)", given)
    assert f'"{file}"' in labels


def test_the_context_holds_what_is_copied_and_no_more():
    copied = {
        source for name, arguments in BUILD if name == "COPY" for source in arguments.split()[:-1]
    }
    rules = (ROOT / ".dockerignore").read_text().splitlines()

    assert rules[1] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert [each for each in copied if not (ROOT / each).exists()] == []


def test_the_tool_that_builds_the_package_is_that_of_the_developers():
    pins = {
        name: set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / name).read_text(), re.M))
        for name in ("build.txt", "dev.txt")
    }

    assert pins["build.txt"]
    assert pins["build.txt"] <= pins["dev.txt"]


def test_packages_of_the_base_come_from_where_those_of_this_machine_come():
    given = "URIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n"

    assert image_base.sources(given, "bookworm") == (
        "URIs: http://mirror.example/debian\nSuites: trixie trixie-updates\n"
    )


def test_the_base_has_the_python_that_the_dockerfile_names(tmp_path: Path):
    (wanted,) = re.findall(r"^ARG PYTHON_IMAGE=python:(\S+)$", DOCKERFILE, re.MULTILINE)

    asked = image_base.bootstrap(tmp_path / "base.tar")

    assert f"localhost/python:{wanted}" == image_base.TAG
    assert f"python{wanted.removesuffix('-slim')}-venv" in ",".join(asked)
    assert asked[-3:] == ["trixie", str(tmp_path / "base.tar"), "-"]


def test_the_content_of_the_image_has_the_time_of_its_last_change():
    copied = " ".join(arguments for name, arguments in BUILD if name == "COPY")
    missing = [each for each in image.CONTENT if each != "Dockerfile" and each not in copied]

    assert missing == []
    assert image._epoch().isdecimal()


def test_the_image_names_its_base():
    (labels,) = (arguments for name, arguments in FINAL if name == "LABEL")

    assert 'org.opencontainers.image.base.name="${PYTHON_IMAGE}"' in labels
