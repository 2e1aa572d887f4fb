"""Write the type of a field for people, from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel

from towpath.contracts.operators import Operator

OPERATORS: tuple[type[BaseModel], ...] = get_args(get_args(Operator)[0])
_WITH_HEADING = {operator.__name__ for operator in OPERATORS}
"""Models that have a heading of their own: `Operator <kind>`."""

LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minItems": "at least {}",
    "minProperties": "at least {}",
    "pattern": "`{}`",
}


def type_of(content: dict[str, Any], schema: dict[str, Any]) -> str:
    """The type of a property; `schema` is the whole schema, whose `$defs` resolve references."""
    limits = [text.format(content[key]) for key, text in LIMITS.items() if key in content]
    return ", ".join([_bare_type(content, schema), *limits])


def _bare_type(content: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in content:
        return _reference(content["$ref"].rsplit("/", 1)[-1], schema)
    for key in ("anyOf", "oneOf"):
        if key in content:
            return " or ".join(type_of(option, schema) for option in content[key])
    if "const" in content:
        return f"`{json.dumps(content['const'])}`"
    if "enum" in content:
        return " or ".join(f"`{value}`" for value in content["enum"])
    return _container(content, schema)


def _container(content: dict[str, Any], schema: dict[str, Any]) -> str:
    kind = content.get("type", "any")
    if kind == "array":
        return "list of " + type_of(content.get("items", {}), schema)
    if kind == "object":
        values = content.get("additionalProperties")
        return "object of " + type_of(values, schema) if isinstance(values, dict) and values else "object"
    return "time" if content.get("format") == "date-time" else str(kind)


def _reference(name: str, schema: dict[str, Any]) -> str:
    target = schema["$defs"][name]
    if "enum" in target:
        return " or ".join(f"`{value}`" for value in target["enum"])
    kind = target.get("properties", {}).get("kind", {})
    if "const" in kind:
        place = f"operator-{kind['const']}" if name in _WITH_HEADING else name.lower()
        return f"[`{kind['const']}`](#{place})"
    return f"[{name}](#{name.lower()})"


def default_of(content: dict[str, Any]) -> str:
    """The default of a property that may be left out; a default that is made each time cannot be shown."""
    if "default" not in content:
        return "generated"
    value = json.dumps(content["default"], ensure_ascii=False)
    return f"`{value}`" if len(value) < 40 else "see type"


def cell(text: str) -> str:
    """`text` on one line, fit for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def named_types(roots: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    """All models that `roots` are made of, each once, in order of appearance."""
    found: dict[str, type[BaseModel]] = {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop(0)
        if kind.__name__ in found:
            continue
        found[kind.__name__] = kind
        waiting += [part for field in kind.model_fields.values() for part in _models_in(field.annotation)]
    return [kind for kind in found.values() if "[" not in kind.__name__]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
