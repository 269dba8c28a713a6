"""Order of the resource versions of one resource."""

__all__ = ["is_older"]


def is_older(version: str, than: str) -> bool:
    """Tell whether a version was given out before another one of the same resource.

    What is no number says nothing, and is not older.

    Source: apimachinery v0.36.3 util/resourceversion.CompareResourceVersion. There are no leading
    zeros, so the longer number is the greater one.
    """
    older = (len(version), version) < (len(than), than)
    return older and version.isdecimal() and than.isdecimal()
