"""Parses an expression into a syntax tree.

A recursive descent along the grammar. Each rule is a generator that yields the rules it needs, and
`_run` drives them, so that no nesting of parentheses can exhaust Python's stack.

Source: cel-go v0.26.0 parser/gen/CEL.g4, parser.parser, parser.recursionListener.
"""

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from scheduler.cel.errors import CompileError
from scheduler.cel.language.literals import (
    LiteralError,
    bytes_value,
    double_value,
    int_value,
    string_value,
    uint_value,
)
from scheduler.cel.language.macros import expand
from scheduler.cel.language.source import NOWHERE, Source
from scheduler.cel.language.syntax import (
    Call,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Select,
    children,
)
from scheduler.cel.language.tokens import END, Token, tokenize

__all__ = ["LONGEST", "parse"]

#: The longest expression, in bytes. The API server refuses longer ones.
LONGEST: Final = 10 * 1024
#: How deep one rule of the grammar may be nested in itself, and how high a tree may become.
_DEEPEST: Final = 250
#: How deep the tree may be in all. Upstream's limits allow about 250; with this one, compiling and
#: evaluating need less than two thirds of the stack that Python has.
_DEEPEST_TREE: Final = 150

_RELATIONS: Final = ("<", "<=", ">=", ">", "==", "!=", "in")
_PRECEDENCE: Final = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_LITERALS: Final[dict[str, Callable[[str], Any]]] = {
    "int": int_value,
    "uint": uint_value,
    "double": double_value,
    "string": string_value,
    "bytes": bytes_value,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}

_Rule: TypeAlias = Generator["_Rule", Any, Any]


def parse(source: Source, *, quotes_fields: bool) -> Expr:
    """Return the syntax tree of an expression.

    Args:
        source: its text.
        quotes_fields: whether fields may be written in backquotes.

    Raises:
        CompileError: it is not an expression, or too long or too deep.
    """
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > LONGEST:
        message = f"expression size exceeds limit: size: {size}, limit {LONGEST}"
        raise source.error(NOWHERE, message)
    parser = _Parser(source, quotes_fields=quotes_fields)
    root: Expr = _run(parser.whole())
    return root


def _run(rule: _Rule) -> Any:
    """Run a rule and the rules that it yields, without recursion."""
    stack, answer = [rule], None
    while stack:
        try:
            needed = stack[-1].send(answer)
        except StopIteration as stop:
            stack.pop()
            answer = stop.value
        else:
            stack.append(needed)
            answer = None
    return answer


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, source: Source, *, quotes_fields: bool) -> None:
        self._source = source
        self._quotes_fields = quotes_fields
        self._tokens = tokenize(source)
        self._at = 0
        self._nesting: Counter[str] = Counter()

    # Tokens.

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != END:
            self._at += 1
        return token

    def _taken(self, kind: str) -> bool:
        """Take the next token if it is of a kind."""
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str) -> Token:
        if self._next.kind != kind:
            raise self._unexpected(kind)
        return self._take()

    def _unexpected(self, wanted: str) -> CompileError:
        token = self._next
        shown = wanted if wanted.isalpha() else f"'{wanted}'"
        message = f"Syntax error: mismatched input '{token.text}' expecting {shown}"
        return self._source.error(token.position, message)

    # Limits.

    def _enter(self, rule: str) -> None:
        self._nesting[rule] += 1
        if self._nesting[rule] > _DEEPEST:
            message = f"expression recursion limit exceeded: {_DEEPEST}"
            raise self._source.error(NOWHERE, message)

    def _leave(self, rule: str) -> None:
        self._nesting[rule] -= 1

    def _made(self, node: Expr, counted: int = 0) -> Expr:
        """Set height and depth of a node that was made of complete ones."""
        for child in children(node):
            node.height = max(node.height, child.height)
            node.depth = max(node.depth, child.depth + 1)
        node.height += counted
        if node.height > _DEEPEST or node.depth > _DEEPEST_TREE:
            raise self._source.error(NOWHERE, "max recursion depth exceeded")
        return node

    # Rules, from the loosest to the tightest.

    def whole(self) -> _Rule:
        """Read the whole expression."""
        root = yield self._expression()
        self._expect(END)
        return root

    def _expression(self) -> _Rule:
        """Read `condition ? a : b`."""
        self._enter("expr")
        result = yield self._logical("||")
        if self._next.kind == "?":
            token = self._take()
            then = yield self._logical("||")
            self._expect(":")
            otherwise = yield self._expression()
            operands = (result, then, otherwise)
            result = self._made(Call("_?_:_", None, operands, position=token.position), 1)
        self._leave("expr")
        return result

    def _logical(self, operator: str) -> _Rule:
        """Read `a || b || c`, and `a && b && c`, each as one node."""
        inner = self._relation if operator == "&&" else lambda: self._logical("&&")
        terms = [(yield inner())]
        position = self._next.position
        while self._taken(operator):
            terms.append((yield inner()))
        if len(terms) == 1:
            return terms[0]
        return self._made(Call(f"_{operator}_", None, tuple(terms), position=position))

    def _relation(self) -> _Rule:
        """Read `a == b`, left-associative."""
        self._enter("relation")
        left = yield self._calculation(1)
        while self._next.kind in _RELATIONS:
            token = self._take()
            self._enter("relation")
            right = yield self._calculation(1)
            self._leave("relation")
            name = "@in" if token.kind == "in" else f"_{token.kind}_"
            left = self._made(Call(name, None, (left, right), position=token.position), 1)
        self._leave("relation")
        return left

    def _calculation(self, least: int) -> _Rule:
        """Read `a + b * c`, by precedence, left-associative."""
        self._enter("calc")
        left = yield self._unary()
        while _PRECEDENCE.get(self._next.kind, 0) >= least:
            token = self._take()
            right = yield self._calculation(_PRECEDENCE[token.kind] + 1)
            name = f"_{token.kind}_"
            left = self._made(Call(name, None, (left, right), position=token.position), 1)
        self._leave("calc")
        return left

    def _unary(self) -> _Rule:
        """Read `!a`, `-a`; a number with one minus is a literal."""
        first = self._next
        if first.kind not in ("!", "-") or self._is_signed_number():
            result = yield self._member()
            return result
        count = 0
        while self._next.kind == first.kind:
            self._take()
            count += 1
        operand = yield self._member()
        if count % 2 == 0:
            return operand
        return self._made(Call(f"{first.kind}_", None, (operand,), position=first.position))

    def _is_signed_number(self) -> bool:
        return self._next.kind == "-" and self._tokens[self._at + 1].kind in ("int", "double")

    def _member(self) -> _Rule:
        """Read `a.b`, `a.?b`, `a.f(x)`, `a[i]`, `a[?i]`."""
        result = yield self._primary()
        while True:
            token = self._next
            if self._taken("."):
                result = yield self._dot(result, token)
            elif self._taken("["):
                function = "_[?_]" if self._taken("?") else "_[_]"
                index = yield self._expression()
                self._expect("]")
                result = Call(function, None, (result, index), position=token.position)
                result = self._made(result, 1)
            else:
                return result

    def _dot(self, operand: Expr, dot: Token) -> _Rule:
        optional = self._taken("?")
        if self._next.kind == "quoted":
            field = self._quoted_field()
            node = Select(operand, field, optional=optional, position=dot.position)
            return self._made(node, 1)
        name = self._expect("name")
        if self._next.kind != "(" or optional:
            node = Select(operand, name.text, optional=optional, position=dot.position)
            return self._made(node, 1)
        opening = self._take()
        arguments = yield self._arguments()
        return self._called(name.text, operand, arguments, opening.position)

    def _quoted_field(self) -> str:
        token = self._take()
        if not self._quotes_fields:
            raise self._source.error(token.position, "unsupported syntax: '`'")
        return token.text[1:-1]

    def _arguments(self) -> _Rule:
        """Read the arguments of a call and the closing parenthesis."""
        found: list[Expr] = []
        if self._taken(")"):
            return tuple(found)
        while True:
            found.append((yield self._expression()))
            if self._taken(")"):
                return tuple(found)
            self._expect(",")

    def _called(
        self, name: str, target: Expr | None, arguments: tuple[Expr, ...], position: int
    ) -> Expr:
        call = Call(name, target, arguments, position=position)
        counted = 0 if target is None else 1
        return self._made(expand(call, self._source) or call, counted)

    def _primary(self) -> _Rule:
        token = self._next
        if token.kind in _LITERALS or self._is_signed_number():
            return self._literal()
        if token.kind in (".", "name"):
            result = yield self._name()
            return result
        if self._taken("("):
            result = yield self._expression()
            self._expect(")")
            return result
        if self._taken("["):
            result = yield self._list(token)
            return result
        if self._taken("{"):
            result = yield self._map(token)
            return result
        raise self._unexpected("expression")

    def _literal(self) -> Expr:
        sign = self._take().text if self._next.kind == "-" else ""
        token = self._take()
        try:
            value = _LITERALS[token.kind](sign + token.text)
        except LiteralError as error:
            raise self._source.error(token.position, str(error)) from None
        return Literal(value, position=token.position - len(sign))

    def _name(self) -> _Rule:
        """Read a name, or the call of a function; messages cannot be made."""
        dot = "." if self._taken(".") else ""
        token = self._expect("name")
        if token.text in _RESERVED:
            raise self._source.error(token.position, f"reserved identifier: {token.text}")
        name = dot + token.text
        opening = self._next
        if self._taken("("):
            arguments = yield self._arguments()
            return self._called(name, None, arguments, opening.position)
        if opening.kind == "{":
            message = f"undeclared reference to '{name}' (in container '')"
            raise self._source.error(opening.position, message)
        return Ident(name, position=token.position)

    def _list(self, opening: Token) -> _Rule:
        elements: list[Expr] = []
        optional = set()
        while not self._taken("]"):
            if self._taken("?"):
                optional.add(len(elements))
            elements.append((yield self._expression()))
            if not self._taken(","):
                self._expect("]")
                break
        node = ListLiteral(tuple(elements), frozenset(optional), position=opening.position)
        return self._made(node)

    def _map(self, opening: Token) -> _Rule:
        entries: list[MapEntry] = []
        while not self._taken("}"):
            optional = self._taken("?")
            key = yield self._expression()
            self._expect(":")
            value = yield self._expression()
            entries.append(MapEntry(key, value, optional))
            if not self._taken(","):
                self._expect("}")
                break
        return self._made(MapLiteral(tuple(entries), position=opening.position))
