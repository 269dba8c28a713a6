"""Programs in place of docker, cosign and so on; run as one of them, by its name.

Each call is a line in the file that CALLS names. The file that STATE names says what there is: in
the registry, on GitHub, in the image. A run starts some fifty of them, so imports are late.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

__all__ = ["DIGEST", "NAMES", "main"]

NAMES: Final = ("docker", "cosign", "gh", "grype", "helm", "kind", "make")
DIGEST: Final = f"sha256:{'0123456789abcdef' * 4}"


def _say(text: str, file: TextIO = sys.stdout) -> None:
    file.write(f"{text}\n")


def main() -> int:
    """Answer as the program whose name this has."""
    name, words = sys.argv[1], sys.argv[2:]
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{json.dumps([name, *words])}\n")
    state = json.loads(Path(os.environ["STATE"]).read_text())
    try:
        globals()[f"_{name}"](words, state)
    except LookupError as error:
        _say(f"ERROR: {error.args[0]}", file=sys.stderr)
        return 1
    Path(os.environ["STATE"]).write_text(json.dumps(state))
    return 0


def _docker(words: Sequence[str], state: dict[str, Any]) -> None:
    match words:
        case ["buildx", "imagetools", "inspect", _, "--format", "{{json .Image}}"]:
            labels = {"org.opencontainers.image.revision": state["revision"]}
            _say(json.dumps({"linux/amd64": {"os": "linux", "config": {"Labels": labels}}}))
        case ["buildx", "imagetools", "inspect", name, *_]:
            if state["registry_fails"]:
                raise LookupError("unauthorized: authentication required")
            if name not in state["registry"]:
                raise LookupError(f"{name}: not found")
            _say(state["registry"][name])
        case ["buildx", "imagetools", "create", "--tag", name, source]:
            state["registry"][name] = source.partition("@")[2]
        case ["buildx", "build", *_]:
            target = words[words.index("--metadata-file") + 1]
            Path(target).write_text(json.dumps({"containerimage.digest": DIGEST}))
        case ["run", *_, "version"]:
            if not state["starts"]:
                raise LookupError("exec /opt/app/bin/preemptive-scheduler: no such file")
            _say(f"preemptive-scheduler {state['version']}")
        case ["run" | "create", *_]:
            _say("container")
        case ["logs", _]:
            _say("became_leader" if state["leads"] else "no_api_server", file=sys.stderr)
        case ["inspect", *_]:
            _say(str(state["leads"]).lower())
        case ["cp", _, target]:
            Path(target).write_text("{}")


def _cosign(words: Sequence[str], _state: dict[str, Any]) -> None:
    if words[0] == "sign-blob":
        Path(words[words.index("--bundle") + 1]).write_text("{}")


def _gh(words: Sequence[str], state: dict[str, Any]) -> None:
    if words[0] == "api" and "/actions/" in words[1]:
        revision = re.findall(r"head_sha=(\w+)", words[1])[0]
        _say(
            json.dumps({"workflow_runs": [{**run, "head_sha": revision} for run in state["runs"]]})
        )
    elif words[0] == "api":
        _say(json.dumps([{"tag_name": tag} for tag in state["releases"]]))
    else:
        state["releases"].append(words[2])


def _grype(words: Sequence[str], state: dict[str, Any]) -> None:
    from deploy.tools.controlplane import binaries

    if words == ["--version"]:
        _say(f"grype {binaries.pinned_version('grype')}")
    else:
        _say(json.dumps(state["scans"].get(words[0].removeprefix("registry:"), state["scan"])))


def _helm(words: Sequence[str], _state: dict[str, Any]) -> None:
    _say(f"Pushed: {words[2]}\nDigest: {DIGEST}")


def _kind(words: Sequence[str], _state: dict[str, Any]) -> None:
    Path(words[words.index("--kubeconfig") + 1]).write_text("{}")


def _make(words: Sequence[str], state: dict[str, Any]) -> None:
    """`make release`, with files that have no more than their names, and the real notes."""
    from deploy.tools.release import build
    from deploy.tools.release.commands import ReleaseError

    version = next(word for word in words if word.startswith("TAG=")).removeprefix("TAG=v")
    target = Path("build") / "release"
    target.mkdir(parents=True)
    try:
        notes = build.notes(Path("CHANGELOG.md").read_text(), version, tagged=True)
    except ReleaseError as error:
        raise LookupError(str(error)) from error
    (target / "notes.md").write_text(notes)
    for chart in ("preemptive-scheduler", "preemptive-scheduler-crds"):
        (target / f"{chart}-{version}.tgz").write_text(
            "" if state["reproducible"] else str(Path.cwd())
        )
    build.checksums(target)


if __name__ == "__main__":
    sys.exit(main())
