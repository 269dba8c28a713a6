"""`make audit`: a package that could not be checked never counts as a good one."""

import json
from pathlib import Path

import pytest

from deploy.tools.release import audit

GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found: c (1)"}


@pytest.mark.parametrize(
    ("packages", "want"),
    [
        ([GOOD], audit.CLEAN),
        ([GOOD, BAD], audit.VULNERABLE),
        ([GOOD, SKIPPED], audit.UNKNOWN),
        ([SKIPPED, BAD], audit.VULNERABLE),
        ([], audit.UNKNOWN),
    ],
)
def test_each_package_must_have_been_checked(packages: list[dict[str, object]], want: int):
    code, told = audit.evaluate({"dependencies": packages})

    assert code == want
    assert told


def test_it_names_what_is_vulnerable_and_what_repairs_it():
    assert audit.evaluate({"dependencies": [BAD]})[1] == ["b 2: PYSEC-1, fixed in 3"]


def test_it_names_what_was_not_checked():
    assert audit.evaluate({"dependencies": [GOOD, SKIPPED]})[1] == [
        "1 of 2 packages were not checked", "Dependency not found: c (1)",
    ]  # fmt: skip


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_service_that_cannot_be_asked_is_a_failure(tmp_path, capsys):
    failing = program(tmp_path / "audit", "echo no network >&2; exit 1")

    assert audit.main([failing, "a.txt"]) == audit.UNKNOWN
    assert capsys.readouterr().err == "a.txt:\n  no network\n"


def test_one_vulnerable_file_outweighs_one_that_could_not_be_checked(tmp_path):
    told = json.dumps({"dependencies": [BAD]})
    mixed = program(
        tmp_path / "audit", f"case $4 in *=bad) echo '{told}';; *) echo oh no >&2; exit 1;; esac"
    )

    assert audit.main([mixed, "bad", "other"]) == audit.VULNERABLE
    assert audit.main([mixed, "other", "bad"]) == audit.VULNERABLE
