"""Text from outside, made safe to show: one record stays one line.

Names and messages come from API objects, so anybody who may create a pod writes them. A newline
would forge a log record, an escape sequence would drive the reader's terminal, a directional
mark would reverse what is read, and a lone surrogate cannot be encoded at all.

What comes out is printable, but may hold letters of any script.
"""

__all__ = ["json_text", "printable", "shortened", "without_surrogates"]

_ELLIPSIS = " ..."


def printable(text: str) -> str:
    r"""Return the text with every character that does not print as its escape: `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def json_text(document: str) -> str:
    r"""Return a JSON document with what does not print escaped as JSON escapes it.

    Only strings of a document can hold such characters: an encoder writes no white space.
    """
    if document.isprintable():
        return document
    return "".join(each if each.isprintable() else _json_escape(each) for each in document)


def without_surrogates(text: str) -> str:
    r"""Return the text with lone surrogates, which no encoding knows, spelled out: `\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters, marked where something is missing."""
    if len(text) <= limit:
        return text
    return text[: limit - len(_ELLIPSIS)] + _ELLIPSIS


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
