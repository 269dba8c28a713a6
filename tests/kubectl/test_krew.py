"""The manifest for krew, as far as it can be checked without krew, and what it installs."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from scheduler import __version__

FOLDER = Path(__file__).parents[2] / "deploy" / "manifests" / "krew"
SCRIPT = FOLDER / "kubectl-preemptive"
FIELDS = {"TagName": f"v{__version__}", "Homepage": "https://example.com",
          "URI": "https://example.com/a.tar.gz", "Sha256": "0" * 64}  # fmt: skip


@pytest.fixture
def plugin() -> dict:
    text = (FOLDER / "preemptive.yaml").read_text()
    for name, value in FIELDS.items():
        text = text.replace(f"{{{{ .{name} }}}}", value)
    body = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    assert "{{" not in body
    return yaml.safe_load(body)


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
        assert re.fullmatch(r"[0-9a-f]{64}", platform["sha256"])
        assert platform["bin"] in {each["from"] for each in platform["files"]}
        assert platform["selector"]["matchExpressions"]


def test_the_file_has_the_name_by_which_kubectl_finds_it(plugin: dict):
    assert plugin["spec"]["platforms"][0]["bin"] == f"kubectl-{plugin['metadata']['name']}"
    assert os.access(SCRIPT, os.X_OK)


def test_the_script_runs_the_package_of_this_version():
    assert f"package='preemptive-scheduler=={__version__}'" in SCRIPT.read_text()


def test_the_script_gives_its_arguments_to_uvx(tmp_path: Path):
    fake = tmp_path / "uvx"
    fake.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    fake.chmod(0o755)

    ended = subprocess.run(
        [SCRIPT, "why", "a b"], env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ended.stdout.splitlines()[-3:] == ["kubectl-preemptive", "why", "a b"]


def test_without_uvx_and_pipx_the_script_says_what_to_install(tmp_path: Path):
    (tmp_path / "sh").symlink_to("/bin/sh")

    ended = subprocess.run(
        [SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "pipx" in ended.stderr
