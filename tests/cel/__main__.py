"""Compares random selectors with upstream's package: `make cel REFERENCE=v1.36`."""

import argparse
import sys

from scheduler.model.releases import NEWEST, REFERENCES, Reference
from tests.cel.upstream import ask, differs, ours
from tests.support.cel_expressions import Expressions

#: Expressions from one seed, which are asked for in one go.
BATCH = 500


def main() -> int:
    """Write every disagreement, upstream's answer before ours.

    Returns:
        1 if a value or refusal is another one.
    """
    arguments = argparse.ArgumentParser(prog="python -m tests.cel", description=__doc__)
    arguments.add_argument("--reference", choices=REFERENCES, default=NEWEST.name)
    arguments.add_argument("--expressions", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=0)
    chosen = arguments.parse_args()
    reference = REFERENCES[chosen.reference]
    found = {"kind": 0, "text": 0}
    for seed in range(chosen.seed, chosen.seed + -(-chosen.expressions // BATCH)):
        for kind in compare(seed, reference):
            found[kind] += 1
    sys.stdout.write(
        f"{reference.version}, {chosen.expressions} expressions: {found['kind']} with another "
        f"value or refusal, {found['text']} with another text\n"
    )
    return 1 if found["kind"] else 0


def compare(seed: int, reference: Reference) -> list[str]:
    """Compare the expressions of a seed; return the kinds of the disagreements."""
    cases = Expressions(seed, reference).cases(BATCH)
    found = []
    for (device, expression), other in zip(cases, ask(cases, reference), strict=True):
        own = ours(device, expression, reference)
        kind = differs(own, other)
        if kind:
            found.append(kind)
            sys.stdout.write(f"seed {seed}: {expression}\n  {device}\n  {other}\n  {own}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
