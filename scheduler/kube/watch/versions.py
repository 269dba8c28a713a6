"""Order of the resource versions of one resource."""

__all__ = ["is_older"]


def is_older(version: str, than: str) -> bool:
    """Return whether a version was issued before another one of the same resource.

    A version that is not a number cannot be compared, and is not older.

    Source: apimachinery v0.36.3 util/resourceversion.CompareResourceVersion. There are no leading
    zeros, so the longer number is the greater one.
    """
    older = (len(version), version) < (len(than), than)
    return older and version.isdecimal() and than.isdecimal()
