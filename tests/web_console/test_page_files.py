"""What the page is made of: copied libraries are what npm pins, and own code follows the rules."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from deploy.tools.console.__main__ import LIBRARIES, LICENCES, LOCK, MANIFEST, VENDOR

ROOT = Path(__file__).parents[2]
STATIC = VENDOR.parent
MODULES = sorted((STATIC / "js").rglob("*.js"))
STYLES = sorted((STATIC / "style").glob("*.css"))
#: Ways around the escaping of the framework, and code from text.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|DOMParser"
    r"|\beval\b|new Function|setTimeout\([\"'`]|createContextualFragment|srcdoc"
)

each_module = pytest.mark.parametrize(
    "module", MODULES, ids=[str(path.relative_to(STATIC)) for path in MODULES]
)


def manifest() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((VENDOR / MANIFEST).read_text())
    return found


def test_copied_libraries_are_those_that_the_lock_file_pins():
    locked = json.loads(LOCK.read_text())["packages"]
    pinned = [locked[f"node_modules/{library.package}"] for library in LIBRARIES]

    assert [(each["package"], each["version"], each["integrity"]) for each in manifest()] == [
        (library.package, each["version"], each["integrity"])
        for library, each in zip(LIBRARIES, pinned, strict=True)
    ]
    assert [each["license"] for each in manifest()] == [each["license"] for each in pinned]


def test_copied_files_are_unchanged_and_no_others_are_there():
    want = {
        name: digest
        for each in manifest()
        for name, digest in dict(each["sha256"]).items()  # type: ignore[call-overload]
    }

    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != MANIFEST
    }
    assert found == want


def test_the_lock_file_names_no_package_host():
    assert "resolved" not in LOCK.read_text()
    assert "://" not in "".join(
        line for line in LOCK.read_text().splitlines() if '"url"' not in line
    )


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda each: each.package)
def test_licences_are_permissive_beside_the_copies_and_in_the_notice(library):
    (entry,) = (each for each in manifest() if each["package"] == library.package)
    notice = (ROOT / "NOTICE").read_text().lower()

    assert entry["license"] in LICENCES
    assert (VENDOR / f"{library.package}.LICENSE").stat().st_size > 500
    assert f"- {library.package}, copyright" in notice


@each_module
def test_modules_use_nothing_that_makes_elements_or_code_of_text(module):
    assert FORBIDDEN.findall(module.read_text()) == []


@each_module
def test_modules_import_only_files_of_the_page_and_what_these_export(module):
    imports = re.findall(
        r'^(?:import|export) (?:(\{[^}=]*\}|\w+) from )?"([^"]+)";', module.read_text(), re.M
    )

    for names, path in imports:
        target = (module.parent / path).resolve()
        assert path.startswith(("./", "../")), path
        assert target.is_file(), path
        if target.is_relative_to(STATIC / "js"):
            exported = target.read_text()
            for name in re.findall(r"(\w+)(?: as \w+)?", names):
                assert re.search(rf"export [^;]*?\b{name}\b", exported), f"{path}: {name}"


def test_the_page_has_no_inline_scripts_and_styles():
    text = (STATIC / "index.html").read_text()

    assert re.findall(r"<script[^>]*>(?=.)(?!</script>)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", text) == []


def test_nothing_is_loaded_from_elsewhere():
    named = {
        path.name: re.findall(r"(?:https?:)?//[\w.-]+\.\w+", path.read_text())
        for path in (*MODULES, *STYLES, STATIC / "index.html")
    }

    assert {name: found for name, found in named.items() if found} == {}
