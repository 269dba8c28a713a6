"""`python -m deploy.tools.pages.site FOLDER`: gather the pages of the documentation site.

MkDocs reads one folder. Pages of this repository are in several, and link to each other and to
other files. They are copied with their paths, so the same links work in the repository and on the
site, and MkDocs checks every one of them. Files that pages link to are copied as well.
"""

import argparse
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["gather", "main", "pages"]

ROOT: Final = Path(__file__).parents[3]

#: Pages outside of `docs`.
OTHERS: Final = ("*.md", "charts/*/README.md", "scheduler/README.md", "tests/README.md")

_LINK: Final = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def pages(root: Path) -> list[Path]:
    """Return the pages of the site, relative to the root of the repository."""
    patterns = (*OTHERS, "docs/**/*.md")
    return sorted({path.relative_to(root) for each in patterns for path in root.glob(each)})


def gather(root: Path, target: Path) -> None:
    """Copy all pages, and the files that they link to, into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    for page in pages(root):
        _copy(root, page, target)
        for link in _links(root / page):
            _copy(root, link.relative_to(root), target)


def _links(page: Path) -> Iterator[Path]:
    """Yield the files that a page links to; pages are copied anyway."""
    for name in _LINK.findall(page.read_text()):
        path = (page.parent / name).resolve()
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from (each for each in path.rglob("*") if each.is_file())


def _copy(root: Path, path: Path, target: Path) -> None:
    (target / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / path, target / path)


def main() -> None:
    """Gather the pages of this repository."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    gather(ROOT, parser.parse_args().folder)


if __name__ == "__main__":
    main()
