"""Escapes untrusted text for output, so that one record stays one line.

Names and messages come from API objects, so every user who may create a pod can choose them. A
newline would forge a log record, an escape sequence would control the reader's terminal, a
directional mark would reverse the displayed text, and a lone surrogate cannot be encoded at all.

The result is printable, but may hold letters of any script.
"""

__all__ = ["json_text", "printable", "shortened", "without_surrogates"]

_ELLIPSIS = " ..."


def printable(text: str) -> str:
    r"""Return the text with every character that does not print as its escape: `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def json_text(document: str) -> str:
    r"""Return a JSON document in which characters that do not print have JSON escapes.

    Only strings of a document can hold such characters: the encoder writes no white space.
    """
    if document.isprintable():
        return document
    return "".join(char if char.isprintable() else _json_escape(char) for char in document)


def without_surrogates(text: str) -> str:
    r"""Return the text with lone surrogates, which cannot be encoded, as escapes: `\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters, with an ellipsis if the text is cut."""
    if len(text) <= limit:
        return text
    return text[: limit - len(_ELLIPSIS)] + _ELLIPSIS


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
