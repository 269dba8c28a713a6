"""The policies of docs/policy-recipes.md, by the sentence above each."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["RECIPES"]

_PAGE: Final = Path(__file__).parents[2] / "docs" / "policy-recipes.md"

#: Objects by heading.
RECIPES: Final[dict[str, dict[str, Any]]] = {
    heading: yaml.safe_load(block)
    for heading, block in re.findall(
        r"^## (.*)\n\n```yaml\n([^`]*)```", _PAGE.read_text(), re.MULTILINE
    )
}
