"""The bill of materials: what is installed, checked against the lock, and the same every time."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from deploy.tools.release import sbom
from deploy.tools.release.sbom import Pin, SbomError

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements" / "runtime.txt"

STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.41-12+deb13u1
Architecture: amd64
Maintainer: GNU Libc Maintainers <debian-glibc@lists.debian.org>
Depends: libgcc-s1 (>= 4.2), debconf (>= 0.5) | debconf-2.0
Description: GNU C Library
 Status: deinstall ok config-files

Package: libgcc-s1
Status: install ok installed
Version: 14
Architecture: amd64

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: all
"""


def bill(capsys: pytest.CaptureFixture[str]) -> str:
    assert sbom.main(["--lock", str(LOCK)]) == 0
    return capsys.readouterr().out


def test_it_names_every_package_of_the_lock_that_is_installed(capsys):
    told = json.loads(bill(capsys))

    purls = {each["purl"] for each in told["components"]}
    version = metadata.version("aiohttp")
    assert f"pkg:pypi/aiohttp@{version}" in purls
    assert {each.partition("@")[0] for each in purls} >= {
        f"pkg:pypi/{name}" for name, pin in sbom.pins(LOCK.read_text()).items()
        if not pin.conditional
    }  # fmt: skip
    assert not any("pytest" in each for each in purls)
    assert told["metadata"]["component"]["name"] == "preemptive-scheduler"


def test_what_requires_what_refers_to_components(capsys):
    told = json.loads(bill(capsys))

    ours = told["metadata"]["component"]["bom-ref"]
    refs = {ours, *(each["bom-ref"] for each in told["components"])}
    links = {each["ref"]: set(each["dependsOn"]) for each in told["dependencies"]}
    assert set(links) <= refs
    assert set().union(*links.values()) <= refs
    assert f"pkg:pypi/numpy@{metadata.version('numpy')}" in links[ours]


def test_the_same_packages_give_the_same_bytes(capsys, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")

    assert bill(capsys) == bill(capsys)
    assert json.loads(bill(capsys))["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"


def test_every_component_has_supplier_licence_and_hash(capsys):
    told = json.loads(bill(capsys))

    packages = [told["metadata"]["component"], *told["components"]]
    assert [each["name"] for each in packages if not each["supplier"]["name"]] == []
    assert [each["name"] for each in packages if not each["licenses"]] == []
    unnamed = [
        (each["name"], choice)
        for each in packages
        for choice in each["licenses"]
        if not ("expression" in choice or "id" in choice["license"])
    ]
    assert unnamed == []
    hashes = {each["name"]: each["hashes"][0]["content"] for each in packages if "hashes" in each}
    assert hashes.keys() == {each["name"] for each in packages} - {"python"}
    assert all(len(each) == 64 for each in hashes.values())
    assert len(set(hashes.values())) == len(hashes)
    assert told["metadata"]["authors"] == [{"name": sbom.AUTHORS}]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"no-such-package": Pin("1", False)}, "not installed: no-such-package"),
        ({"numpy": Pin("0.0.1", False)}, "not as locked: numpy "),
    ],
)
def test_what_is_not_as_the_lock_says_is_refused(wanted, problem):
    with pytest.raises(SbomError, match=problem):
        sbom.python_packages(wanted, metadata.distributions())


def test_packages_of_debian_are_those_that_are_installed(tmp_path):
    (tmp_path / "libc6").mkdir()
    head = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    text = f"{head}\n\nFiles: *\nLicense: LGPL-2.1+\n\nLicense: BSD-3-clause\n Text.\n"
    (tmp_path / "libc6" / "copyright").write_text(text)

    (libc, libgcc), links = sbom.debian(STATUS, tmp_path)

    assert libc["purl"] == "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64"
    assert libc["supplier"] == {"name": "GNU Libc Maintainers"}
    assert [each["license"]["name"] for each in libc["licenses"]] == ["BSD-3-clause", "LGPL-2.1+"]
    assert "licenses" not in libgcc
    assert links == [
        {"ref": libc["bom-ref"], "dependsOn": [libgcc["bom-ref"]]},
        {"ref": libgcc["bom-ref"], "dependsOn": []},
    ]
