"""`make image`: what it asks of the engine, and what the Dockerfile promises."""

import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

import scheduler
from deploy.tools.nodes import images
from deploy.tools.release import gate, image_base, rootfs
from deploy.tools.release.image_base import ImageError

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


class Machine:
    """A machine whose PATH has what a test puts there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, engine: str, script: str = "exit 0") -> None:
        file = self.path / engine
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def find(self) -> str:
        return images.find_engine({"PATH": str(self.path)})


def commanded(*variables: str) -> list[str]:
    """Return the command with which `make image` would build."""
    answer = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "image", *variables],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = shlex.split(answer.stdout.partition("DOCKER_BUILDKIT=1 ")[2])
    return [word for word in words if word.strip()]


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
(BASE,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)


def test_the_first_engine_that_works_is_taken(machine: Machine):
    machine.has("podman")
    machine.has("buildah")

    assert machine.find() == "podman"


def test_a_client_without_its_daemon_is_no_engine(machine: Machine):
    machine.has("docker", "exit 1")
    machine.has("buildah")

    assert machine.find() == "buildah"


def test_without_an_engine_all_are_named(machine: Machine):
    machine.has("docker", "exit 1")

    with pytest.raises(ImageError, match="no container engine works here: docker, podman, buildah"):
        machine.find()


def test_docker_builds_the_version_of_the_package_from_the_commit():
    asked = commanded()

    assert asked[:2] == ["docker", "build"]
    assert f"--tag=preemptive-scheduler:{scheduler.__version__}" in asked
    assert f"--build-arg=VERSION={scheduler.__version__}" in asked
    assert [each for each in asked if re.fullmatch(r"--build-arg=SOURCE_DATE_EPOCH=\d+", each)]
    assert asked[-1] == "."


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah", "/usr/bin/buildah"])
def test_only_buildah_is_told_to_cache_layers(engine: str):
    asked = commanded(f"ENGINE={engine}")

    assert asked[:2] == [engine, "build"]
    assert ("--layers" in asked) == engine.endswith("buildah")


def test_what_the_network_needs_is_a_secret_of_the_build():
    asked = commanded(
        "IMAGE=a/b:1", "CA_BUNDLE=/my files/ca.pem", "PIP_CONF=/pip.conf", "FLAGS=--quiet --pull"
    )

    assert "--tag=a/b:1" in asked
    assert asked[-5:] == [
        "--secret=id=cabundle,src=/my files/ca.pem",
        "--secret=id=pipconf,src=/pip.conf",
        "--quiet",
        "--pull",
        ".",
    ]
    for name in re.findall(r"id=(\w+)", " ".join(asked)):
        assert f"type=secret,id={name}," in DOCKERFILE


def test_arguments_are_those_of_the_dockerfile():
    asked = commanded("BASE=b", "REPOSITORY=r")

    named = {each.split("=")[1] for each in asked if each.startswith("--build-arg")}
    assert named == set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))


def test_a_missing_engine_is_named(tmp_path: Path):
    answer = subprocess.run(
        ["make", "image", "ENGINE=no-such-engine"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode != 0
    assert "no-such-engine is not on PATH; choose ENGINE=docker|podman|buildah" in answer.stderr


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

    assert copied == ["--from=build /rootfs /", "--from=build /opt/app /opt/app"]
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)[-1] == "scratch"
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

    names = [*(each.replace("/", ".") for each in dropped), *rootfs.UNUSED]
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT, *names],
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
    assert "--dpkg-status /rootfs/var/lib/dpkg/status " in given


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
    wanted = BASE.partition("@")[0].removeprefix("python:")

    asked = image_base.bootstrap(tmp_path / "base.tar")

    assert f"localhost/python:{wanted}" == image_base.TAG
    assert f"python{wanted.removesuffix('-slim')}-venv" in ",".join(asked)
    assert asked[-3:] == ["trixie", str(tmp_path / "base.tar"), "-"]


def test_the_content_of_the_image_has_the_time_of_its_last_change():
    copied = " ".join(arguments for name, arguments in BUILD if name == "COPY")
    (content,) = re.findall(r"^CONTENT := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert [each for each in content.split() if not (ROOT / each).exists()] == []
    missing = [each for each in content.split() if each != "Dockerfile" and each not in copied]
    assert missing == []


def test_the_image_names_its_base():
    (labels,) = (arguments for name, arguments in FINAL if name == "LABEL")

    assert 'org.opencontainers.image.base.name="${PYTHON_IMAGE}"' in labels
    assert gate.base_problem(BASE) is None


def test_the_image_has_the_time_of_the_content_and_the_address_of_the_sources():
    asked = commanded("REPOSITORY=https://git.example/owner/name")

    epoch, created = (
        next(each.partition(f"{name}=")[2] for each in asked if f"={name}=" in each)
        for name in ("SOURCE_DATE_EPOCH", "CREATED")
    )
    assert datetime.fromisoformat(created).timestamp() == int(epoch)
    assert "--build-arg=SOURCE=https://git.example/owner/name" in asked


def test_the_root_has_files_and_the_links_on_the_way_to_them(tmp_path: Path):
    here, target = tmp_path / "here", tmp_path / "root"
    (here / "usr" / "lib").mkdir(parents=True)
    (here / "usr" / "lib" / "libx.so.1.2").write_text("x")
    (here / "usr" / "lib" / "libx.so.1").symlink_to("libx.so.1.2")
    (here / "lib").symlink_to("usr/lib")
    root = rootfs.Root(target)

    real = root.take(here / "lib" / "libx.so.1")

    copy = target / here.relative_to("/")
    assert real == here / "usr" / "lib" / "libx.so.1.2"
    assert (copy / "lib").readlink() == Path("usr/lib")
    assert (copy / "lib" / "libx.so.1").readlink() == Path("libx.so.1.2")
    assert (copy / "lib" / "libx.so.1").read_text() == "x"
    assert real in root.taken


def test_the_root_has_the_modules_that_run(tmp_path: Path):
    names = ("os.py", "test/a.py", "json/__pycache__/a.pyc", "json/decoder.py",
             "site-packages/p.py", "lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so",
             "lib-dynload/readline.cpython-313-x86_64-linux-gnu.so")  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = {each.relative_to(tmp_path).as_posix() for each in rootfs.modules(tmp_path)}

    assert found == {"os.py", "json/decoder.py", "lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so"}


LDD = """\
\tlinux-vdso.so.1 (0x00007ffd1)
\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f1)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f2)
"""


def test_the_libraries_that_a_program_loads_are_needed():
    found = rootfs.needed(LDD, Path("x"))

    assert found == [Path("/lib/x86_64-linux-gnu/libz.so.1"), Path("/lib64/ld-linux-x86-64.so.2")]


def test_a_library_that_is_missing_is_an_error():
    with pytest.raises(rootfs.RootError, match=r"^/p needs libq\.so$"):
        rootfs.needed("\tlibq.so => not found\n", Path("/p"))


def test_the_root_tells_only_of_the_packages_in_it():
    status = "Package: a\nStatus: x\n\nPackage: ab\nStatus: y\n\nPackage: c\nStatus: z\n"

    assert rootfs.status_of(status, {"a", "c"}) == (
        "Package: a\nStatus: x\n\nPackage: c\nStatus: z\n\n"
    )
