"""Packages that advertise plugins, as an installer puts them on the path."""

from pathlib import Path
from textwrap import dedent

from scheduler.plugins.external.entry_points import GROUP

__all__ = ["install"]


def install(site: Path, package: str, code: str, **plugins: str) -> None:
    """Put a package of one module on a path.

    Args:
        site: the folder; it has to be on `sys.path`.
        package: its name and that of its module, not to be used twice in one run.
        code: the module.
        plugins: what it advertises: names, and what stands for each in the module.
    """
    (site / f"{package}.py").write_text(dedent(code))
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {package}:{target}" for name, target in plugins.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
