"""Splits the text of an expression into tokens.

Source: cel-go v0.26.0 parser/gen/CEL.g4, lexer rules.
"""

import re
from dataclasses import dataclass
from typing import Final

from scheduler.cel.language.source import Source

__all__ = ["END", "Token", "tokenize"]

#: The kind of the token behind the last one.
END: Final = "end"

_ESCAPE: Final = (
    r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
)
_STRING: Final = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"""(?:.|\n)*?"""',
        r"[rR]'''(?:.|\n)*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_TOKEN: Final = re.compile(
    r"(?P<space>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<symbol>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
    re.ASCII,
)
#: Names that are tokens of their own.
_WORDS: Final = frozenset(("in", "true", "false", "null"))


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    Attributes:
        kind: "name", "quoted", "string", "bytes", "double", "uint", "int", "end"; symbols and the
            words `in`, `true`, `false` and `null` are their own kind.
        text: the characters.
        position: offset of the first character.
    """

    kind: str
    text: str
    position: int


def tokenize(source: Source) -> list[Token]:
    """Return the tokens of an expression; the last one is the end.

    Raises:
        CompileError: a character belongs to no token.
    """
    text, tokens, at = source.text, [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise source.error(at, f"Syntax error: token recognition error at: '{text[at]}'")
        kind, found = match.lastgroup, match.group()
        if kind != "space":
            own_kind = kind == "symbol" or found in _WORDS
            tokens.append(Token(found if own_kind else kind, found, at))
        at = match.end()
    tokens.append(Token(END, "<EOF>", len(text)))
    return tokens
