"""`python -m deploy.tools.release.gate`: what must be true before anything is published.

`release` and `rebuild` say what the workflow is to do, as outputs of its step: `kind` (`release`,
`rebuild` or `none`), `tag`, `revision`, `version`, and for an image `image_version`. Only a commit
of the main branch that CI has passed is released. It is named by its hash from then on, because a
tag can be moved. `absent` refuses names that the registry has already, `base` prints the base of
the image by digest.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from deploy.tools.release import scan
from deploy.tools.release.commands import ReleaseError, ask, tell

__all__ = [
    "base",
    "base_problem",
    "built_from",
    "ci_problem",
    "main",
    "newest",
    "rebuild",
    "release",
    "revision_of",
]

MAIN: Final = "refs/heads/main"
#: A release, not a rebuild of its image (`0.1.0-1`) and not a release candidate.
_TAG: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
#: How registries say that they have no such name. Any other failure is no proof of it.
_NOT_FOUND: Final = re.compile(r"not found|manifest unknown|name unknown|NAME_UNKNOWN", re.I)
_WORKFLOW: Final = "ci.yaml"
#: Runs for pull requests have tested another commit: the merge with main.
_EVENTS: Final = ("push", "workflow_dispatch")
_PINNED: Final = re.compile(r"[^\s@]+@sha256:([0-9a-f]{64})")
_REVISION: Final = "org.opencontainers.image.revision"
_BASE: Final = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)


def release(tag: str, ref: str, repository: str) -> dict[str, str]:
    """Return the outputs for the release of a tag.

    Args:
        tag: As `v0.1.0`.
        ref: The branch whose workflow this is.
        repository: As `owner/name`.

    Raises:
        ReleaseError: The tag must not be released.
    """
    known = _allowed(tag, ref, repository)
    if tag in _releases(repository):
        raise ReleaseError(f"{tag} is published already; a change needs another version")
    return {**known, "kind": "release", "image_version": known["version"]}


def rebuild(ref: str, repository: str, image: str) -> dict[str, str]:
    """Return the outputs for a rebuild of the newest published image, if it has to be rebuilt.

    Args:
        ref: The branch whose workflow this is.
        repository: As `owner/name`.
        image: The name of the image, without a tag; empty: nothing is published anywhere.

    Raises:
        ReleaseError: It must not be released.
    """
    tags = [tag for tag in _releases(repository) if _TAG.fullmatch(tag)] if image else []
    if not tags:
        print("nothing is published")
        return {"kind": "none"}
    known = _allowed(newest(tags), ref, repository)
    version = known["version"]
    rebuilt = next(n for n in count(1) if not published(f"{image}:{version}-{n}"))
    last = version if rebuilt == 1 else f"{version}-{rebuilt - 1}"
    found = [line for each in scan.PLATFORMS for line in scan.findings(f"{image}:{last}", each)]
    print("\n".join(found) or f"{image}:{last} has nothing that a rebuild could fix")
    if not found:
        return {"kind": "none"}
    if built_from(f"{image}:{version}") != {known["revision"]}:
        raise ReleaseError(f"{known['tag']} is not the commit any more that {version} was built of")
    return {**known, "kind": "rebuild", "image_version": f"{version}-{rebuilt}"}


def newest(tags: Iterable[str]) -> str:
    """Return the tag with the highest version."""
    return max(tags, key=lambda tag: [int(each) for each in re.findall(r"\d+", tag)])


def revision_of(tag: str) -> str:
    """Return the commit of a tag.

    Raises:
        ReleaseError: There is none, or it is not part of the main branch.
    """
    found = ask(["git", "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}"])
    if found.code != 0:
        raise ReleaseError(f"there is no tag {tag}")
    revision = found.output.strip()
    if ask(["git", "merge-base", "--is-ancestor", revision, "origin/main"]).code != 0:
        raise ReleaseError(f"{tag} is commit {revision}, which is not on the main branch")
    return revision


def ci_problem(runs: Sequence[Mapping[str, Any]], revision: str) -> str | None:
    """Return why CI has not passed a commit of the main branch; None if it has.

    Args:
        runs: `workflow_runs` of GitHub's API.
        revision: The commit.
    """
    ours = [
        run
        for run in runs
        if (run["head_sha"], run["head_branch"]) == (revision, "main") and run["event"] in _EVENTS
    ]
    if not ours:
        return f"CI has not run for {revision} on main"
    last = max(ours, key=lambda run: (run["run_number"], run["run_attempt"]))
    if last["status"] != "completed":
        return f"CI has not ended for {revision}: {last['html_url']}"
    if last["conclusion"] != "success":
        return f"CI ended with {last['conclusion']} for {revision}: {last['html_url']}"
    return None


def published(name: str) -> bool:
    """Return whether a registry has an image or chart, as `registry.example/owner/name:tag`.

    Raises:
        ReleaseError: The registry does not tell.
    """
    answer = ask(["docker", "buildx", "imagetools", "inspect", name])
    if answer.code != 0 and not _NOT_FOUND.search(answer.problem):
        raise ReleaseError(f"it is not known whether {name} exists: {answer.problem}")
    return answer.code == 0


def built_from(image: str) -> set[str]:
    """Return the commits that an image of a registry names, one for all its platforms.

    Raises:
        ReleaseError: The registry does not tell.
    """
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{json .Image}}"]
    try:
        platforms = json.loads(tell(command)).values()
        return {each["config"]["Labels"][_REVISION] for each in platforms}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReleaseError(f"{image} does not say what it was built of") from error


def base(dockerfile: str, *, newer: bool) -> str:
    """Return the base of the image by digest.

    Args:
        dockerfile: The text of the Dockerfile that names it.
        newer: Whether to ask the registry for the digest that its tag has now.

    Raises:
        ReleaseError: It has no digest.
    """
    named = _BASE.findall(dockerfile)
    image = named[0] if named else ""
    if newer:
        tag = image.partition("@")[0]
        asked = ["docker", "buildx", "imagetools", "inspect", tag, "--format"]
        image = f"{tag}@{tell([*asked, '{{.Manifest.Digest}}']).strip()}"
    problem = base_problem(image)
    if problem is not None:
        raise ReleaseError(problem)
    return image


def base_problem(image: str) -> str | None:
    """Return the problem of the name of a base, which must not change; None if there is none."""
    found = _PINNED.fullmatch(image)
    if not image:
        return "no base image is given"
    if found is None:
        return f"{image} is not pinned: a base is named as python:3.13-slim@sha256:<64 hex digits>"
    if len(set(found[1])) == 1:
        return f"{image} has a placeholder for a digest"
    return None


def main(argv: list[str] | None = None) -> int:
    """Run a command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.gate", description=__doc__
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name in ("release", "rebuild"):
        command = commands.add_parser(name)
        command.add_argument("--ref", required=True, help="the branch of this workflow")
        command.add_argument("--repository", required=True, help="as owner/name")
    commands.choices["release"].add_argument("--tag", required=True)
    commands.choices["rebuild"].add_argument("--image", required=True)
    commands.add_parser("absent").add_argument("names", nargs="+")
    command = commands.add_parser("base")
    command.add_argument("--dockerfile", type=Path, required=True)
    command.add_argument("--newer", action="store_true", help="the digest that the tag has now")
    try:
        _run(parser.parse_args(argv))
    except ReleaseError as error:
        print(f"::error::{error}" if "GITHUB_ACTIONS" in os.environ else f"error: {error}")
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    match options.command:
        case "release":
            _output(release(options.tag, options.ref, options.repository))
        case "rebuild":
            _output(rebuild(options.ref, options.repository, options.image))
        case "base":
            print(base(options.dockerfile.read_text(), newer=options.newer))
        case _:
            for name in options.names:
                if published(name):
                    raise ReleaseError(f"{name} is published already; it is never overwritten")


def _allowed(tag: str, ref: str, repository: str) -> dict[str, str]:
    """Return tag, commit and version of what may be released.

    Raises:
        ReleaseError: It may not.
    """
    if ref != MAIN:
        raise ReleaseError(f"only the workflow of {MAIN} releases, this is that of {ref}")
    if _TAG.fullmatch(tag) is None:
        raise ReleaseError(f"{tag or 'nothing'} is no tag of a release, which is as v0.1.0")
    revision = revision_of(tag)
    _check_ci(revision, repository)
    return {"tag": tag, "revision": revision, "version": tag.removeprefix("v")}


def _output(values: Mapping[str, str]) -> None:
    """Print outputs, and give them to the workflow, if this is one."""
    lines = "".join(f"{name}={value}\n" for name, value in values.items())
    print(lines, end="")
    file = os.environ.get("GITHUB_OUTPUT")
    if file:
        with Path(file).open("a") as outputs:
            outputs.write(lines)


def _check_ci(revision: str, repository: str) -> None:
    query = f"head_sha={revision}&per_page=100"
    path = f"repos/{repository}/actions/workflows/{_WORKFLOW}/runs?{query}"
    problem = ci_problem(json.loads(tell(["gh", "api", path]))["workflow_runs"], revision)
    if problem is not None:
        raise ReleaseError(problem)


def _releases(repository: str) -> list[str]:
    """Return the tags of the releases, drafts included."""
    path = f"repos/{repository}/releases?per_page=100"
    return [str(each["tag_name"]) for each in json.loads(tell(["gh", "api", path]))]


if __name__ == "__main__":
    sys.exit(main())
