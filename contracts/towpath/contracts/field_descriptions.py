"""Field descriptions, read from the source: the string below a field of a model is what the field means.

They are read when a schema is made, not when a model is defined. Reading takes as long as defining the model,
and hardly any process makes a schema.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator, Sequence

from pydantic import BaseModel


def field_descriptions(kind: type[BaseModel]) -> dict[str, str]:
    """Field → the string below it, for all fields of a model that have one, inherited ones included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        written = _written(base.__module__).get(base.__qualname__, {})
        own = vars(base).get("__annotations__", {})
        found = {name: text for name, text in found.items() if name not in own} | written
    origin = getattr(kind, "fields_from", None)
    taken = field_descriptions(origin) if origin is not None else {}
    return {name: text for name, text in (taken | found).items() if name in kind.model_fields}


@functools.cache
def _written(module: str) -> dict[str, dict[str, str]]:
    """Class → field → the string below it, for all classes of a module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}  # Built in, or typed at a prompt: there is no source.
    return dict(_classes(tree.body, ""))


def _classes(body: Sequence[ast.stmt], within: str) -> Iterator[tuple[str, dict[str, str]]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            name = f"{within}{statement.name}"
            yield name, _below_fields(statement.body)
            yield from _classes(statement.body, f"{name}.")


def _below_fields(body: Sequence[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
            continue
        if isinstance(below.value.value, str):
            found[field.target.id] = inspect.cleandoc(below.value.value)
    return found
