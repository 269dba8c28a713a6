"""`make image`: what it asks of the engine, and what the Dockerfile promises."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tools.release import rootfs

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def commanded(*variables: str) -> list[str]:
    """Return the command with which `make image` would build."""
    answer = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "image", *variables],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = shlex.split(answer.stdout.partition("DOCKER_BUILDKIT=1 ")[2])
    return [word for word in words if word.strip()]


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


def test_the_image_runs_as_a_number_and_not_as_root():
    # The kubelet refuses a name under runAsNonRoot: it cannot resolve it to an ID.
    assert [arguments for name, arguments in FINAL if name == "USER"] == ["65532:65532"]


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


def test_the_context_holds_what_is_copied_and_no_more():
    copied = {
        source for name, arguments in BUILD if name == "COPY" for source in arguments.split()[:-1]
    }
    rules = (ROOT / ".dockerignore").read_text().splitlines()

    assert rules[1] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert [each for each in copied if not (ROOT / each).exists()] == []


def test_the_content_of_the_image_has_the_time_of_its_last_change():
    copied = " ".join(arguments for name, arguments in BUILD if name == "COPY")
    (content,) = re.findall(r"^CONTENT := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert [each for each in content.split() if not (ROOT / each).exists()] == []
    missing = [each for each in content.split() if each != "Dockerfile" and each not in copied]
    assert missing == []


def test_the_root_has_the_modules_that_run(tmp_path):
    names = ("os.py", "test/a.py", "json/__pycache__/a.pyc", "json/decoder.py",
             "site-packages/p.py", "lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so",
             "lib-dynload/readline.cpython-313-x86_64-linux-gnu.so")  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = {each.relative_to(tmp_path).as_posix() for each in rootfs.modules(tmp_path)}

    assert found == {"os.py", "json/decoder.py", "lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so"}


def test_a_library_that_is_missing_is_an_error():
    with pytest.raises(rootfs.RootError, match=r"^/p needs libq\.so$"):
        rootfs.needed("\tlibq.so => not found\n", Path("/p"))
