"""Hold an expression, as Spark's own parser reads it, to what users may write.

Spark makes the text of the whole tree in one call: a call for each node would take longer than the parser.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from towpath.contracts.spark_expressions import function_refusal

_ATTRIBUTES = frozenset({"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"})

_CLASSES = """
Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Collate Concat CreateNamedStruct
Divide EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull
IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1 LambdaFunction LessThan LessThanOrEqual Like LikeAll
LikeAny Literal Multiply NamePlaceholder$ Not NotLikeAll NotLikeAny Or Overlay RLike Remainder ShiftLeft
ShiftRight ShiftRightUnsigned StringLocate StringTrim StringTrimLeft StringTrimRight Substring Subtract
TimestampAdd TimestampDiff UnaryMinus UnaryPositive UnresolvedCollation UnresolvedExtractValue
UnresolvedFunction
"""

_ALLOWED = _ATTRIBUTES.union(_CLASSES.split())
"""Classes of the parser's expressions. Whatever Spark adds is refused until it is listed."""

_EXPLAINED = {
    **dict.fromkeys(("ScalarSubquery", "ListQuery", "InSubquery", "Exists"), "a subquery"),
    **dict.fromkeys(("WindowExpression", "AggregateExpression"), "a function of other events"),
    "ExpressionWithUnresolvedIdentifier": "a name that is computed",
}


@dataclass(frozen=True)
class Refusal:
    """Why an expression is refused."""

    message: str
    is_field_unknown: bool = False


def parsed_refusal(spark: SparkSession, text: str, columns: Collection[str]) -> Refusal | None:
    """Return why an expression over these columns is refused; None if it is not.

    Raises an error of PySpark if it is no expression.
    """
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # pyright: ignore
    nodes: list[dict[str, Any]] = json.loads(parser.parseExpression(text).toJSON())
    known = frozenset(column.lower() for column in columns)
    scopes = {0: known}
    for number, children in enumerate(_children(nodes)):
        node, scope = nodes[number], scopes.pop(number)
        if why := _refusal(node, len(children), scope):
            return why
        if _class(node) == "LambdaFunction":
            scope |= {_name(nodes[argument]) for argument in children[1:]}
        scopes |= dict.fromkeys(children, scope)
    return None


def _refusal(node: dict[str, Any], arguments: int, scope: Collection[str]) -> Refusal | None:
    kind = _class(node)
    if kind not in _ALLOWED:
        return Refusal(f"{_EXPLAINED.get(kind, kind)} may not be used in an expression")
    if kind in _ATTRIBUTES and _name(node) not in scope:
        return Refusal(f"there is no field {_name(node)!r}", is_field_unknown=True)
    if kind == "UnresolvedFunction" and (why := function_refusal(node["nameParts"][1:-1], arguments)):
        return Refusal(why)
    return None


def _children(nodes: list[dict[str, Any]]) -> list[list[int]]:
    """Return the positions of each node's children, of a tree in which they follow it in depth."""
    found: list[list[int]] = []
    heads: list[int] = []
    for number in range(len(nodes) - 1, -1, -1):
        count = nodes[number]["num-children"]
        found.append([heads.pop() for _ in range(count)])
        heads.append(number)
    return found[::-1]


def _class(node: dict[str, Any]) -> str:
    return node["class"].rpartition(".")[2]


def _name(node: dict[str, Any]) -> str:
    """Return the first part of a name, which Spark writes as `[first, second]`."""
    return node["nameParts"][1:-1].partition(", ")[0].lower()
