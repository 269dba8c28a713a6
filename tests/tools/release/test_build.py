"""A release has the same bytes wherever and whenever it is built, and everything in it is sound."""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from deploy.tools.release import build, gate, krew
from deploy.tools.release.build import Sources
from deploy.tools.release.commands import ReleaseError
from tests.support.archives import unpack

ROOT = Path(__file__).parents[3]
EPOCH = 1_700_000_000
PROGRAM = """
import os, sys
from pathlib import Path
from deploy.tools.release import build
os.umask(int(sys.argv[3], 8))
folder = Path(sys.argv[1])
sources = build.copy_tracked(build.ROOT, folder)
build.build(sources, Path(sys.argv[2]), "registry.example/owner", "https://git.example/owner/name")
"""


def release(folder: Path, umask: str, timezone: str) -> Path:
    """Build a release in a process of its own, and return its folder."""
    sources, target = folder / "sources", folder / "release"
    sources.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(sources), str(target), umask],
        cwd=ROOT,
        env={**os.environ, "TZ": timezone, "PYTHONHASHSEED": str(len(umask + timezone))},
        check=True,
    )
    return target


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    return release(tmp_path_factory.mktemp("first"), "0022", "UTC")


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.chart
def test_two_builds_give_the_same_digests(released, tmp_path):
    again = release(tmp_path / "somewhere" / "else", "0077", "Asia/Tokyo")

    assert digests(again) == digests(released)


@pytest.mark.chart
def test_a_release_has_everything_that_needs_no_registry_and_its_checksums(released):
    version = Sources(ROOT, EPOCH).version

    found = digests(released)

    checksums = (released / build.CHECKSUMS).read_text()
    assert checksums == "".join(
        f"{found[name]}  {name}\n" for name in sorted(found) if name != build.CHECKSUMS
    )
    assert found.keys() == {
        f"preemptive_scheduler-{version}-py3-none-any.whl",
        f"preemptive_scheduler-{version}.tar.gz",
        f"preemptive-scheduler-{version}.tgz",
        f"preemptive-scheduler-crds-{version}.tgz",
        f"kubectl-preemptive-{version}.tar.gz",
        krew.MANIFEST,
        build.NOTES,
        build.SBOM,
        build.CHECKSUMS,
    }


@pytest.mark.chart
def test_the_wheel_holds_the_package_and_its_record_is_right(released):
    (path,) = released.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
        for name, digest, size in rows:
            if name != record:
                content = wheel.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                assert digest == f"sha256={found.decode().rstrip('=')}"
                assert int(size) == len(content)

    tracked = {path.relative_to(ROOT).as_posix() for path in (ROOT / "scheduler").rglob("*.py")}
    assert tracked <= set(names)
    assert sorted(name for name, *_ in rows) == sorted(names)
    assert names[-1] == record


@pytest.mark.chart
def test_what_the_manifest_for_krew_points_to_runs(released, tmp_path):
    """With the packages of the index, by hash; `tests/kubectl/test_krew.py` refuses others."""
    (platform,) = yaml.safe_load((released / krew.MANIFEST).read_text())["spec"]["platforms"]
    packed = released / platform["uri"].rpartition("/")[2]
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == platform["sha256"]
    names = unpack(packed, tmp_path / "store")
    assert {each["from"] for each in platform["files"]} == set(names)
    (tmp_path / "python3.14").symlink_to(sys.executable)

    ended = subprocess.run(
        [tmp_path / "store" / platform["bin"], "--help"],
        cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("usage: kubectl preemptive")


@pytest.mark.chart
def test_the_charts_of_a_release_pull_from_the_registry_that_it_names(released):
    version = Sources(ROOT, EPOCH).version
    with tarfile.open(released / f"preemptive-scheduler-{version}.tgz") as chart:
        values, description, page = (
            chart.extractfile(f"preemptive-scheduler/{name}").read().decode()
            for name in ("values.yaml", "Chart.yaml", "README.md")
        )

    assert yaml.safe_load(values)["image"]["registry"] == "registry.example"
    assert yaml.safe_load(values)["image"]["repository"] == "owner/preemptive-scheduler"
    assert '| `image.registry` | `"registry.example"` |' in page
    assert "no published image" not in values + page
    annotations = yaml.safe_load(description)["annotations"]
    (image,) = yaml.safe_load(annotations["artifacthub.io/images"])
    assert image["image"] == f"registry.example/owner/preemptive-scheduler:{version}"


def test_a_tag_has_to_be_the_version_of_everything(tmp_path):
    for name in ("pyproject.toml", "scheduler/__init__.py", "charts"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, target)
    sources = Sources(tmp_path, EPOCH)
    build.check_version(sources, f"v{sources.version}")
    chart = tmp_path / "charts" / "preemptive-scheduler-crds" / "Chart.yaml"
    chart.write_text(chart.read_text().replace(f"\nversion: {sources.version}", "\nversion: 9.9.9"))

    with pytest.raises(ReleaseError, match=r"is not the version of \S+-crds: version 9\.9\.9$"):
        build.check_version(sources, f"v{sources.version}")


CHANGELOG = """\
# Changelog

## Unreleased

New.

## 0.2.0 - 2026-01-01

### Added

- Two.

## 0.1.0

- One.

## 1.0.0

"""


@pytest.mark.parametrize(
    ("version", "tagged", "want"),
    [
        ("0.2.0", True, "### Added\n\n- Two.\n"),
        ("0.1.0", True, "- One.\n"),
        ("0.3.0", False, "New.\n"),
        ("0.3.0", True, None),
        ("0.1", True, None),
        ("1.0.0", True, None),
    ],
)
def test_the_notes_are_the_section_of_the_changelog(version, tagged, want):
    if want is None:
        with pytest.raises(ReleaseError, match=f"no section on {re.escape(version)}$"):
            build.notes(CHANGELOG, version, tagged=tagged)
    else:
        assert build.notes(CHANGELOG, version, tagged=tagged) == want


def test_checksums_are_of_all_files_and_keep_those_of_before(tmp_path):
    (tmp_path / "a").write_text("a")
    build.checksums(tmp_path)
    (tmp_path / "sbom.json").write_text("b")

    assert build.main(["--sums", str(tmp_path)]) == 0

    lines = (tmp_path / build.CHECKSUMS).read_text().splitlines()
    assert [line.partition("  ")[2] for line in lines] == ["a", "sbom.json"]


@pytest.mark.parametrize("change", [lambda file: file.write_text("b"), Path.unlink])
def test_a_file_that_is_not_as_it_was_built_gets_no_checksum(tmp_path, change, capsys):
    (tmp_path / "a").write_text("a")
    before = build.checksums(tmp_path)[-1].read_text()
    change(tmp_path / "a")

    assert build.main(["--sums", str(tmp_path)]) == 1

    assert capsys.readouterr().err == "error: not as they were built: a\n"
    assert (tmp_path / build.CHECKSUMS).read_text() == before


@pytest.mark.parametrize(
    ("image", "want"),
    [
        (f"python:3.13-slim@sha256:{'0123456789abcdef' * 4}", None),
        (f"registry.example:5000/python@sha256:{'0123456789abcdef' * 4}", None),
        ("", "no base image is given"),
        ("python:3.13-slim", "is not pinned"),
        ("python:3.13-slim@sha256:abc", "is not pinned"),
        (f"python:3.13-slim@sha256:{'0' * 64}", "has a placeholder for a digest"),
    ],
    ids=["tag and digest", "digest", "nothing", "tag", "short digest", "placeholder"],
)
def test_a_base_image_has_to_be_named_by_digest(image, want):
    found = gate.base_problem(image)

    assert (found is None) == (want is None)
    assert (want or "") in (found or "")
