"""The manifest for krew, as far as it can be checked without krew, and what it installs."""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from deploy.tools.release import krew
from scheduler import __version__
from tests.support.archives import unpack

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "manifests" / "krew" / "kubectl-preemptive"
REQUIREMENTS = ROOT / "requirements"


@pytest.fixture
def plugin(tmp_path: Path) -> dict:
    packed, wheel = tmp_path / "a.tar.gz", tmp_path / "a.whl"
    packed.write_bytes(b"archive")
    text = krew.manifest(ROOT, packed, wheel, __version__, "https://git.example/owner/name")
    assert "{{" not in text
    return yaml.safe_load(text)


def test_the_manifest_has_what_krew_requires(plugin):
    """Source: krew internal/index/validation/validate.go, ValidatePlugin."""
    spec = plugin["spec"]

    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert plugin["kind"] == "Plugin"
    assert re.fullmatch(r"[\w-]+", plugin["metadata"]["name"])
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert spec["shortDescription"]
    assert "\n" not in spec["shortDescription"]
    assert len(spec["shortDescription"]) <= 50  # the guide of the index
    assert spec["platforms"]


def test_each_platform_is_complete(plugin):
    for platform in plugin["spec"]["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "files", "bin"}
        assert platform["sha256"] == hashlib.sha256(b"archive").hexdigest()
        assert platform["uri"] == (
            f"https://git.example/owner/name/releases/download/v{__version__}/a.tar.gz"
        )
        assert {"a.whl", krew.LOCK} <= {each["from"] for each in platform["files"]}
        assert platform["bin"] in {each["from"] for each in platform["files"]}
        assert platform["selector"]["matchExpressions"]


def lock(name: str) -> dict[str, str]:
    """Return the lines of a lock file by the name of the package: version and hashes."""
    text = re.sub(r"^ *#.*\n| ;[^\\\n]*(?= \\)", "", (REQUIREMENTS / name).read_text(), flags=re.M)
    parts = re.split(r"^(?=\S+==)", text, flags=re.M)
    return {part.partition("==")[0]: part.split("==", 1)[1] for part in parts if "==" in part}


def test_each_package_of_the_plugin_is_locked_as_in_the_image():
    client, image = lock(krew.LOCK), lock("runtime.txt")

    assert client.items() <= image.items()
    assert all("--hash=sha256:" in each for each in client.values())
    assert client.keys().isdisjoint({"numpy", "kopf", "uvloop", "kubernetes", "prometheus-client"})
    assert "index-url" not in (REQUIREMENTS / krew.LOCK).read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {re.split(r"[>=]", each)[0] for each in project["project"]["dependencies"]}
    assert set(project["dependency-groups"]["client"]) <= needed


#: Imports all of the plugin, then runs a command of it.
RUN = """
import importlib, pkgutil, sys
import scheduler.kubectl
for module in pkgutil.walk_packages(scheduler.kubectl.__path__, "scheduler.kubectl."):
    importlib.import_module(module.name)
from scheduler.kubectl.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the lock file, as they are installed here, and the plugin."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "scheduler").symlink_to(ROOT / "scheduler")
    for name in lock(krew.LOCK):
        installed = metadata.distribution(name)
        for top in {each.parts[0] for each in installed.files or () if ".." not in each.parts}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(installed.locate_file(top))))
    return folder


def ran(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", RUN, *arguments],
        env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_plugin_needs_no_other_packages(site, tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("{apiVersion: v1, kind: Config}")

    helped = ran(site, "--help")
    asked = ran(site, "version", "--kubeconfig", str(kubeconfig))

    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("usage: kubectl preemptive")
    assert asked.returncode == 1
    assert asked.stderr.startswith("error: ")
    assert "Traceback" not in asked.stderr


def test_replay_says_what_to_install_for_it(site):
    ended = ran(site, "replay", "x.rec")

    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "error: replay needs packages that this installation of the plugin does not have",
        "install the wheel of a release, or from a clone: pipx install .",
    ]


def wheel(folder: Path, name: str, version: str, **files: str) -> Path:
    """Write a wheel with these modules."""
    info = f"{name}-{version}.dist-info"
    contents = {f"{key.replace('__', '/')}.py": text for key, text in files.items()}
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{path},sha256={digest.rstrip('=')},{len(text)}\n")
    contents[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as target:
        for path, text in contents.items():
            target.writestr(path, text)
    return made


MAIN = "import sys, needed\nprint(needed.VALUE, *sys.argv[1:], sep='|')\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip, which takes seconds to make; tests get copies of it."""
    folder = tmp_path_factory.mktemp("python") / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


def script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


class Installed:
    """The archive as krew installs it, and a folder in place of the package index."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder = folder
        self.store = folder / "a store" / "preemptive"
        index, sources = folder / "index", folder / "sources"
        for each in (index, sources / "requirements", folder / "bin"):
            each.mkdir(parents=True)
        self.package = wheel(index, "needed", "1.0", needed="VALUE = 7")
        digest = hashlib.sha256(self.package.read_bytes()).hexdigest()
        (sources / "requirements" / krew.LOCK).write_text(f"needed==1.0 --hash=sha256:{digest}\n")
        shutil.copytree(SCRIPT.parent, sources / SCRIPT.parent.relative_to(ROOT))
        shutil.copy(ROOT / "LICENSE", sources)
        ours = wheel(
            folder, "preemptive_scheduler", __version__,
            scheduler____init__="", scheduler__kubectl____init__="", scheduler__kubectl__main=MAIN,
        )  # fmt: skip
        unpack(krew.archive(sources, ours, __version__, 1_700_000_000), self.store)
        self.environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
        }
        script(
            folder / "bin" / "python3.14",
            f'test "$1 $2 $3" != "-I -m venv" || exec cp -R {environment}/. "$4"',
            f'exec {sys.executable} "$@"',
        )
        (folder / "bin" / "kubectl-preemptive").symlink_to(self.store / "kubectl-preemptive")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.folder / "bin" / "kubectl-preemptive", *arguments],
            env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def names(self) -> set[str]:
        return {each.name for each in self.store.iterdir()}


@pytest.fixture
def installed(tmp_path: Path, environment: Path) -> Installed:
    return Installed(tmp_path, environment)


def test_the_first_run_installs_what_is_locked_and_later_runs_use_it(installed):
    (installed.folder / "scheduler").mkdir()  # not to be taken for the plugin

    first = installed.run("why", "a b")
    shutil.rmtree(installed.folder / "index")
    later = installed.run("top")

    assert (first.returncode, first.stdout) == (0, "7|why|a b\n")
    assert (
        first.stderr == "The packages of the plugin are installed once, which takes some seconds.\n"
    )
    assert (later.returncode, later.stdout, later.stderr) == (0, "7|top\n", "")
    assert len(installed.names) == 5  # nothing is left beside the environment


def test_a_package_with_another_hash_is_refused(installed):
    before = installed.names
    wheel(installed.package.parent, "needed", "1.0", needed="VALUE = 8")

    ended = installed.run("top")

    assert ended.returncode != 0
    assert ended.stdout == ""
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ended.stderr
    assert installed.names == before


def test_where_there_is_no_python_uv_installs_from_the_same_list(installed, environment):
    programs = installed.folder / "bin"
    (programs / "python3.14").unlink()
    for name in ("sh", "dirname", "readlink", "mktemp", "rm"):
        (programs / name).symlink_to(shutil.which(name))
    installed.environ["PATH"] = str(programs)
    without = installed.run("top")
    script(
        programs / "uv",
        f'echo "$PWD" "$@" >> {installed.folder}/asked',
        f'test "$1" != venv || exec /bin/cp -R {environment}/. "$5"',
        'python=$5; shift 5; exec "$python" -m pip -q install "$@"',
    )

    ended = installed.run("top")

    assert without.returncode == 1
    assert "install one of them" in without.stderr
    assert (ended.returncode, ended.stdout) == (0, "7|top\n")
    _, packages, _ = (installed.folder / "asked").read_text().splitlines()
    assert packages.startswith(f"{installed.store} pip install ")
    assert packages.endswith("--require-hashes --only-binary :all: -r client.txt")
