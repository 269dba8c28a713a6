"""What the tests have measured: shown at the end of the run, whether they pass or fail."""

LINES: list[str] = []


def tell(line: str) -> None:
    """Show a line at the end of the run."""
    LINES.append(line)
