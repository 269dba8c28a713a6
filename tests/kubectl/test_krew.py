"""The manifest for krew, as far as it can be checked without krew, and what it installs."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.tools.release import krew
from scheduler import __version__
from tests.support.archives import unpack

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "manifests" / "krew" / "kubectl-preemptive"


@pytest.fixture
def plugin(tmp_path: Path) -> dict:
    packed, wheel = tmp_path / "a.tar.gz", tmp_path / "a.whl"
    packed.write_bytes(b"archive")
    text = krew.manifest(ROOT, packed, wheel, __version__, "https://git.example/owner/name")
    assert "{{" not in text
    return yaml.safe_load(text)


def test_the_manifest_has_what_krew_requires(plugin: dict):
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


def test_each_platform_is_complete(plugin: dict):
    for platform in plugin["spec"]["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "files", "bin"}
        assert platform["sha256"] == hashlib.sha256(b"archive").hexdigest()
        assert platform["uri"] == (
            f"https://git.example/owner/name/releases/download/v{__version__}/a.tar.gz"
        )
        assert "a.whl" in {each["from"] for each in platform["files"]}
        assert platform["bin"] in {each["from"] for each in platform["files"]}
        assert platform["selector"]["matchExpressions"]


def test_the_file_has_the_name_by_which_kubectl_finds_it(plugin: dict):
    assert plugin["spec"]["platforms"][0]["bin"] == f"kubectl-{plugin['metadata']['name']}"
    assert os.access(SCRIPT, os.X_OK)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The archive with a wheel of two modules, as krew installs it: a link to the script."""
    wheel = tmp_path / f"preemptive_scheduler-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    packed = krew.archive(ROOT, wheel, __version__, 1_700_000_000)
    store, links = tmp_path / "a store" / "preemptive", tmp_path / "bin"
    unpack(packed, store)
    links.mkdir()
    (links / "kubectl-preemptive").symlink_to(store / "kubectl-preemptive")
    return links / "kubectl-preemptive"


@pytest.mark.parametrize(
    ("program", "flags"), [("uvx", ["--quiet", "--from"]), ("pipx", ["run", "--quiet", "--spec"])]
)
def test_the_script_runs_the_wheel_beside_it(unpacked: Path, program: str, flags: list[str]):
    fake = unpacked.parent / program
    fake.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    fake.chmod(0o755)

    ended = subprocess.run(
        [unpacked, "why", "a b"], env={"PATH": f"{unpacked.parent}:/bin:/usr/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    wheel = unpacked.resolve().parent / f"preemptive_scheduler-{__version__}-py3-none-any.whl"
    expected = [*flags, str(wheel), "kubectl-preemptive", "why", "a b"]
    assert ended.stdout.splitlines() == expected
    assert wheel.read_bytes() == b"a wheel"


def test_without_uvx_and_pipx_the_script_says_what_to_install(unpacked: Path, tmp_path: Path):
    for name in ("sh", "dirname", "readlink"):
        (unpacked.parent / name).symlink_to(shutil.which(name))

    ended = subprocess.run(
        [unpacked], env={"PATH": str(unpacked.parent)}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "pipx" in ended.stderr
