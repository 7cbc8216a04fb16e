"""Parses recipes: Python call expressions over registered names, read with `ast` and never evaluated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, overload

from duelrank.core.errors import InvalidRecipe
from duelrank.core.registry import Collection, P, Part, aliases, kind_of, lookup, names, override, reader, with_article

MAX_LENGTH = 4_000  # far longer than any real recipe, far shorter than what could exhaust the parser


@overload
def parse(text: str) -> Part: ...
@overload
def parse(text: str, kind: Callable[..., P]) -> P: ...  # a class; `type[P]` would forbid abstract ones
def parse(text: str, kind: Any = Part) -> Part:
    """Build the part that a recipe string describes; the string is never evaluated as code.

    Parameters
    ----------
    text
        A short name, or a Python call expression of registered names: ``mgd-dsp(n_candidates=49)``,
        ``Projected(base=MGD(), projection=DocumentSpace(remembered=0))``, ``nDCG@10``.
    kind
        The required kind of part, such as `Algorithm`; any kind by default.

    Examples
    --------
    >>> from duelrank import parse
    >>> parse("mgd-dsp(n_candidates=49)").base.exploration
    UniformSphere(n_candidates=49)
    """
    part: Part = (kind.from_path(text) if isinstance(text, str) else None) or _build(text, kind)
    if not isinstance(part, kind):
        known = ", ".join(names(kind))
        raise InvalidRecipe(
            f"{text!r} is {with_article(part.kind)}, but {with_article(kind.kind)} is required: {known}"
        )
    found: Part = part
    return found


def as_part(given: P | str, kind: type[P]) -> P:
    """Return the part; text is parsed.

    Examples
    --------
    >>> from duelrank.core.grammar import as_part
    >>> from duelrank.metrics import Metric
    >>> as_part("nDCG@5", Metric).cutoff
    5
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str):
        return parse(given, kind)
    raise InvalidRecipe(f"expected {with_article(kind.kind)} or its text, such as {names(kind)[0]!r}, got {given!r}")


def listed(given: Iterable[P | str] | P | str) -> list[P | str]:
    """Return one or several parts or texts as a list; a text may contain several, and a collection stands for its members.

    Examples
    --------
    >>> from duelrank.core.grammar import listed
    >>> listed("perfect, Cascade((0.1, 0.5), (0.0, 0.5))")
    ['perfect', 'Cascade((0.1, 0.5), (0.0, 0.5))']
    """
    if not isinstance(given, (str, Part, Iterable)):
        raise InvalidRecipe(f"expected a list of names, such as ['mgd', 'mgd-dsp'], got {given!r}")
    named: Iterable[Any] = (
        split_top_level(given) if isinstance(given, str) else [given] if isinstance(given, Part) else given
    )
    known = aliases(Collection)
    found = ((each, known.get(each, each) if isinstance(each, str) else each) for each in named)
    return [member for each, part in found for member in (part.members if isinstance(part, Collection) else (each,))]


def split_top_level(text: str) -> list[str]:
    """Split at commas, except those inside brackets or quotes: recipes may contain commas."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if letter == "," and not depth and not quote:
            pieces.append("")
            continue
        pieces[-1] += letter
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return [_unquoted(piece.strip()) for piece in pieces if piece.strip()]


def _unquoted(text: str) -> str:
    """Return the text without its enclosing quotes, which a name that contains commas needs."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _build(text: str, kind: type[Part]) -> Part:
    if not isinstance(text, str) or not text.strip():
        raise InvalidRecipe(f"a recipe must be a string such as 'mgd-dsp(n_candidates=49)', got {text!r}")
    if len(text) > MAX_LENGTH:
        raise InvalidRecipe(f"a recipe has at most {MAX_LENGTH} characters, got {len(text)}")
    if not text.isascii():  # Python normalises look-alike letters of other alphabets in identifiers
        raise InvalidRecipe(f"a recipe must be ASCII text, got {text!r}")
    try:
        node = ast.parse(text.strip(), mode="eval").body
        value = _value(node, kind)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InvalidRecipe):
            raise
        raise InvalidRecipe(
            f"cannot read {text!r}: a recipe is a name or a call, such as mgd-dsp or mgd-dsp(n_candidates=49)"
        ) from None
    if not isinstance(value, Part):
        raise InvalidRecipe(f"{text!r} is a plain value; a recipe must start with a name: {', '.join(names())}")
    return value


def _value(node: ast.expr, kind: type[Part] = Part) -> Any:
    """Build the value of a node; for an unknown name, suggest names of the required kind."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _cut(_value(node.left, kind), _value(node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
        return _joined(_value(node.left), _value(node.right, kind))
    name, call = _dashed(node)
    if name is not None:
        return _make(lookup(name, kind), name, call)
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_value(item) for item in node.elts)
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    constant = node.operand if isinstance(node, ast.UnaryOp) and sign == -1 else node
    if isinstance(constant, ast.Constant):
        plain = constant.value
        if isinstance(plain, (int, float)) and not isinstance(plain, bool):
            return sign * plain
        if sign == 1 and (plain is None or isinstance(plain, (str, bool))):
            return plain
    raise InvalidRecipe(f"{ast.unparse(node)!r} is not a name, a call, a number, a quoted text or a tuple")


def _dashed(node: ast.expr) -> tuple[str | None, ast.Call | None]:
    """Return the name in ``mgd-dsp(...)``, which Python parses as a subtraction."""
    if isinstance(node, ast.Name):
        return node.id, None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id, node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, left_call = _dashed(node.left)
        right, call = _dashed(node.right)
        if left is not None and right is not None and left_call is None:
            return f"{left}-{right}", call
    return None, None


def _make(known: Part | type[Part], name: str, call: ast.Call | None) -> Part:
    keywords = _keywords(known, name, call)
    positional = [_value(item) for item in call.args] if call else []
    if isinstance(known, Part):
        if positional:
            raise InvalidRecipe(f"{name}(...) takes parameters by name only, such as {name}(seed=1)")
        return override(known, keywords, name)
    made: Part = known(*positional, **keywords)
    return made


def _keywords(known: Part | type[Part], name: str, call: ast.Call | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in call.keywords if call else []:
        if item.arg is None or item.arg in found:
            raise InvalidRecipe(f"{name}(...): give each parameter once, as name=value")
        found[item.arg] = _value(item.value, kind_of(known, item.arg))
    return found


def _cut(part: Any, cutoff: Any) -> Part:
    if not isinstance(part, Part) or "cutoff" not in {item.name for item in fields(part)}:
        raise InvalidRecipe(f"'@' sets the cutoff of a metric, such as nDCG@10; {part!r} has none")
    cut: Part = replace(part, cutoff=cutoff)  # type: ignore[call-arg]  # it was just seen to have one
    return cut


def _joined(first: Any, then: Any) -> Any:
    try:
        return operator.rshift(first, then)
    except TypeError:
        raise InvalidRecipe(
            f"'>>' puts a representation or a memory before an algorithm, such as query-scaled >> remember >> mgd-dsp; got "
            f"{first!r} >> {then!r}"
        ) from None


reader(parse)
