"""Runs the jobs of a workflow of GitHub on this machine, as far as they need nothing of GitHub.

`run:` steps are run by bash. Of the actions, checkouts and artifacts are played with folders; the
others are only recorded.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["WorkflowRun"]

_SHELL: Final = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
_EXPRESSION: Final = re.compile(r"\$\{\{ (.+?) \}\}")


class WorkflowRun:
    """One run of a workflow.

    Attributes:
        results: `success`, `failure` or `skipped` by job.
        failed: The name of the step that failed, and what it printed; empty if none did.
        artifacts: The folder with one folder for each artifact.

    Args:
        workflow: The file.
        folder: An empty folder.
        origin: The repository that checkouts clone.
        contexts: What `github`, `inputs`, `vars` and `secrets` hold.
        environ: The environment of the runner.
    """

    def __init__(
        self,
        workflow: Path,
        folder: Path,
        *,
        origin: Path,
        contexts: Mapping[str, Mapping[str, str]],
        environ: Mapping[str, str],
    ) -> None:
        self._workflow = yaml.safe_load(workflow.read_text())
        self._folder = folder
        self._origin = origin
        self._contexts: dict[str, Any] = {**contexts, "needs": {}}
        self._environ = dict(environ)
        self.artifacts = folder / "artifacts"
        self.results: dict[str, str] = {}
        self.failed: tuple[str, str] = ("", "")
        for name, job in self._workflow["jobs"].items():
            self.results[name] = self._job(name, job)
            outputs = {key: self._filled(value) for key, value in job.get("outputs", {}).items()}
            self._contexts["needs"][name] = {"outputs": outputs}

    def _job(self, name: str, job: Mapping[str, Any]) -> str:
        needs = job.get("needs", [])
        before = [self.results[each] for each in ([needs] if isinstance(needs, str) else needs)]
        condition = job.get("if", "")
        if "failure()" not in condition and set(before) - {"success"}:
            return "skipped"
        if not self._holds(condition, failed="failure" in self.results.values()):
            return "skipped"
        place = self._folder / name
        place.mkdir(parents=True)
        self._contexts |= {"steps": {}, "env": {}}
        self._contexts["env"] = self._variables(self._workflow, job)
        for step in job["steps"]:
            if not self._step(place, step):
                return "failure"
        return "success"

    def _step(self, place: Path, step: Mapping[str, Any]) -> bool:
        given = {key: self._filled(value) for key, value in step.get("with", {}).items()}
        if "uses" in step:
            self._act(place, step["uses"].partition("@")[0], given)
            return True
        outputs = place / ".outputs"
        outputs.write_text("")
        (place / ".temp").mkdir(exist_ok=True)
        ended = subprocess.run(
            [*_SHELL, step["run"]],
            cwd=place,
            env={
                **self._environ,
                **self._contexts["env"],
                **self._variables(step),
                "GITHUB_OUTPUT": str(outputs),
                "GITHUB_STEP_SUMMARY": str(place / ".summary"),
                "RUNNER_TEMP": str(place / ".temp"),
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        lines = [line.partition("=") for line in outputs.read_text().splitlines()]
        told = {key: value for key, _, value in lines}
        self._contexts["steps"][step.get("id", "")] = {"outputs": told}
        if ended.returncode != 0:
            self.failed = (step["name"], ended.stdout)
        return ended.returncode == 0

    def _act(self, place: Path, action: str, given: Mapping[str, str]) -> None:
        if action == "actions/checkout":
            target = place / given.get("path", ".")
            subprocess.run(["git", "clone", "-q", self._origin, target / ".clone"], check=True)
            for each in (target / ".clone").iterdir():
                each.rename(target / each.name)
            if "ref" in given:
                subprocess.run(["git", "checkout", "-q", given["ref"]], cwd=target, check=True)
        elif action == "actions/upload-artifact":
            shutil.copytree(place / given["path"], self.artifacts / given["name"])
        elif action == "actions/download-artifact":
            for each in self.artifacts.iterdir():
                shutil.copytree(each, place / given["path"], dirs_exist_ok=True)
        else:
            line = json.dumps([action, *given.values()])
            with Path(self._environ["CALLS"]).open("a") as calls:
                calls.write(f"{line}\n")

    def _variables(self, *places: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: self._filled(value)
            for place in places
            for name, value in place.get("env", {}).items()
        }

    def _filled(self, text: Any) -> str:
        """Return a text with the values of its expressions."""
        return _EXPRESSION.sub(lambda found: self._value(found[1]), str(text))

    def _value(self, expression: str) -> str:
        """Return the first that is not empty of values such as `needs.a.outputs.b || env.C`."""
        for path in expression.split(" || "):
            value: Any = self._contexts
            for name in path.split("."):
                value = value.get(name, {})
            if value:
                return str(value)
        return ""

    def _holds(self, condition: str, *, failed: bool) -> bool:
        fixed = {"": True, "!cancelled()": True, "!failure()": not failed}
        for term in condition.split(" && "):
            compared = re.fullmatch(r"(\S+) (==|!=) '(.*)'", term)
            if compared is None:
                if not fixed[term]:
                    return False
            elif (self._value(compared[1]) == compared[3]) != (compared[2] == "=="):
                return False
        return True
