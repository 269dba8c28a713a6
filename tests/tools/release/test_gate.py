"""The rules of a release, without the workflow that applies them."""

from typing import Any

import pytest

from deploy.tools.release import gate, scan, start
from deploy.tools.release.commands import ReleaseError

REVISION = "a" * 40
RUN = {
    "head_sha": REVISION, "head_branch": "main", "event": "push", "run_number": 7, "run_attempt": 1,
    "status": "completed", "conclusion": "success", "html_url": "https://git.example/run",
}  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "want"),
    [
        ([RUN], None),
        ([{**RUN, "conclusion": "failure", "run_number": 6}, RUN], None),
        ([{**RUN, "event": "workflow_dispatch"}], None),
        ([], "has not run"),
        ([{**RUN, "head_sha": "b" * 40}], "has not run"),
        ([{**RUN, "head_branch": "x"}], "has not run"),
        ([{**RUN, "event": "pull_request"}], "has not run"),
        ([{**RUN, "status": "in_progress", "conclusion": None}], "has not ended"),
        ([{**RUN, "conclusion": "cancelled"}], "ended with cancelled"),
        ([RUN, {**RUN, "conclusion": "failure", "run_attempt": 2}], "ended with failure"),
    ],
)
def test_the_last_run_of_ci_for_the_commit_on_main_has_to_succeed(runs, want):
    found = gate.ci_problem(runs, REVISION)

    assert (found is None) == (want is None)
    assert (want or "") in (found or "")


def test_the_newest_release_is_that_with_the_highest_version():
    assert gate.newest(["v0.9.0", "v0.10.0", "v0.9.1"]) == "v0.10.0"


@pytest.mark.parametrize(
    ("published", "scanned", "want"),
    [
        ([], "r/i:0.2.0", "0.2.0-1"),
        (["r/i:0.2.0-1"], "r/i:0.2.0-1", "0.2.0-2"),
        (["r/i:0.2.0-1", "r/i:0.2.0-2"], "r/i:0.2.0-2", "0.2.0-3"),
    ],
)
def test_the_last_rebuild_is_scanned_and_the_next_one_has_the_next_number(
    published, scanned, want, monkeypatch
):
    known = {"tag": "v0.2.0", "revision": REVISION, "version": "0.2.0"}
    monkeypatch.setattr(gate, "_releases", lambda repository: ["v0.2.0", "v0.1.0"])
    monkeypatch.setattr(gate, "_allowed", lambda tag, ref, repository: known)
    monkeypatch.setattr(gate, "published", published.__contains__)
    monkeypatch.setattr(gate, "built_from", lambda image: {REVISION} if image == "r/i:0.2.0" else 0)
    monkeypatch.setattr(scan, "findings", lambda image, platform: ["x"] * (image == scanned))

    found = gate.rebuild(gate.MAIN, "owner/name", "r/i")

    assert found == {**known, "kind": "rebuild", "image_version": want}


def finding(severity: str, state: str) -> dict[str, Any]:
    hole = {"id": "CVE-1", "severity": severity, "fix": {"state": state, "versions": ["2", "3"]}}
    return {"vulnerability": hole, "artifact": {"name": "openssl", "version": "1"}}


@pytest.mark.parametrize(
    ("severity", "state", "found"),
    [
        ("Critical", "fixed", True),
        ("High", "fixed", True),
        ("Medium", "fixed", False),
        ("Critical", "not-fixed", False),
        ("Critical", "wont-fix", False),
    ],
)
def test_a_severe_hole_with_a_fix_is_found(severity, state, found):
    report = {"distro": {"name": "debian"}, "matches": [finding(severity, state)] * 2}

    want = [f"CVE-1 ({severity}) in openssl 1, fixed in 2, 3"] if found else []
    assert scan.fixable(report) == want


@pytest.mark.parametrize("distro", [{}, None, {"name": "alpine"}])
def test_a_scan_that_has_not_seen_debian_proves_nothing(distro):
    with pytest.raises(ReleaseError, match="has not seen the packages of Debian"):
        scan.fixable({"distro": distro, "matches": []})


def test_an_image_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(start, "tell", lambda command: "preemptive-scheduler 0.1.0rc1\n")

    with pytest.raises(ReleaseError, match=r"the image for linux/arm64 is not 0\.1\.0: "):
        start.start("image", "0.1.0", "linux/arm64")
