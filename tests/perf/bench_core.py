"""How fast the core decides, without an API server.

    python -m tests.perf.bench_core

Prints for each case what a decision costs, and what `budgets.yaml` allows. Fails if one costs more.
"""

import sys

from tests.perf.core_cases import figure
from tests.perf.test_core_budgets import CASES, FILE


def main() -> int:
    above = []
    sys.stdout.write(f"{'':70} {'turns':>8} {'allowed':>8} {'CPU us':>8}\n")
    for name, case in CASES.items():
        turns, seconds = figure(case)
        allowed = FILE.budgets[name].measured * FILE.headroom.turns
        sys.stdout.write(f"{name:70} {turns:8.1f} {allowed:8.1f} {seconds * 1e6:8.0f}\n")
        sys.stdout.flush()
        if turns > allowed:
            above.append(name)
    if above:
        sys.stderr.write(f"above the budget: {'; '.join(above)}\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
