"""`python -m deploy.tools.release.audit`: known vulnerabilities of the locked packages.

pip-audit skips packages about which its service does not respond, and still succeeds. Here every
package must have been checked. So there are three exit codes: 0 no vulnerability is known, 1 there
are some, 2 some packages could not be checked.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

__all__ = ["CLEAN", "UNKNOWN", "VULNERABLE", "evaluate", "main"]

ROOT: Final = Path(__file__).parents[3]

CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2

#: How many of the packages that were not checked are named.
_NAMED: Final = 5


def evaluate(report: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the exit code for pip-audit's report, and the lines to print.

    Args:
        report: What `pip-audit --format json` prints.
    """
    packages = report["dependencies"]
    found = [
        f"{package['name']} {package['version']}: {flaw['id']},"
        f" fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    if found:
        return VULNERABLE, found
    skipped = [package for package in packages if "vulns" not in package]
    if skipped or not packages:
        return UNKNOWN, [
            f"{len(skipped)} of {len(packages)} packages were not checked",
            *_why(skipped),
        ]
    return CLEAN, [f"no vulnerability is known in {len(packages)} packages"]


def main(argv: list[str]) -> int:
    """Audit lock files with the pip-audit at a path: `audit PROGRAM LOCK...`."""
    program, *locks = argv
    worst = CLEAN
    for lock in locks:
        how = ["--format=json", "--disable-pip", "--require-hashes", f"--requirement={lock}"]
        answer = subprocess.run(
            [program, *how], cwd=ROOT, capture_output=True, text=True, check=False
        )
        try:
            code, lines = evaluate(json.loads(answer.stdout))
        except (ValueError, KeyError):
            code, lines = UNKNOWN, [(answer.stderr.strip().splitlines() or ["no output"])[-1]]
        print("\n  ".join([f"{lock}:", *lines]), file=sys.stderr if code else sys.stdout)
        worst = VULNERABLE if VULNERABLE in (worst, code) else max(worst, code)
    return worst


def _why(skipped: Iterable[dict[str, Any]]) -> list[str]:
    reasons = [str(package.get("skip_reason", package["name"])) for package in skipped]
    return [*reasons[:_NAMED], *(["..."] if len(reasons) > _NAMED else [])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
