"""Writes `docs/openapi.json`: `python -m deploy.tools.openapi`."""

from pathlib import Path
from typing import Final

from scheduler.observe.api import openapi

COPY: Final = Path(__file__).parents[2] / "docs" / "openapi.json"


def main() -> None:
    """Write the copy."""
    COPY.write_bytes(openapi.description())


if __name__ == "__main__":
    main()
