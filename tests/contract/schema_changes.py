"""Differences between two JSON schemas that keep one version from reading what the other wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

FALLBACK = "unknown"
"""An enumeration that has this value reads all others as it."""


def breaking(old: Schema, new: Schema, *, is_command: bool) -> list[str]:
    """Return each difference with its place.

    A command is read by the new version alone: it may take more than before. All else is read by both.
    """
    return [*_Comparison(old, new, both_ways=not is_command).compare(old, new, "")]


class _Comparison:
    def __init__(self, old: Schema, new: Schema, *, both_ways: bool) -> None:
        self._old, self._new = old.get("$defs", {}), new.get("$defs", {})
        self._both_ways = both_ways
        self._seen: set[tuple[str, str]] = set()

    def compare(self, old: Schema, new: Schema, at: str) -> Iterator[str]:
        pair = old.get("$ref", ""), new.get("$ref", "")
        if all(pair):
            if pair in self._seen:
                return
            self._seen.add(pair)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if _kinds(old) or _kinds(new):
            yield from self._alternatives(_kinds(old) or [old], _kinds(new) or [new], at)
            return
        if old.get("type") != new.get("type"):
            yield f"{at}: {old.get('type')} became {new.get('type')}"
            return
        yield from self._values(old, new, at)
        yield from self._fields(old, new, at)
        for part in ("items", "additionalProperties"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from self.compare(old[part], new[part], f"{at}[]")

    def _alternatives(self, old: list[Schema], new: list[Schema], at: str) -> Iterator[str]:
        for each in old:
            yield from min((self._apart(each, other, at) for other in new), key=len)
        if self._both_ways:
            for each in new:
                if min(len(self._apart(other, each, at)) for other in old):
                    yield f"{at}: one more kind, {each.get('$ref') or each.get('type')}"

    def _apart(self, old: Schema, new: Schema, at: str) -> list[str]:
        seen = set(self._seen)
        found = [*self.compare(old, new, at)]
        if found:
            self._seen = seen
        return found

    def _values(self, old: Schema, new: Schema, at: str) -> Iterator[str]:
        before, after = _values_of(old), _values_of(new)
        if before is None or after is None:
            if before is not after:
                yield f"{at}: the values were {before}, and are {after}"
            return
        if before - after:
            yield f"{at}: without {sorted(map(str, before - after))}"
        if after - before and self._both_ways and FALLBACK not in before:
            yield f"{at}: with {sorted(map(str, after - before))}"

    def _fields(self, old: Schema, new: Schema, at: str) -> Iterator[str]:
        fields = new.get("properties", {})
        for name, field in old.get("properties", {}).items():
            if name not in fields:
                yield f"{at}.{name}: is gone"
            else:
                yield from self.compare(field, fields[name], f"{at}.{name}")
        for name in {*new.get("required", [])} - {*old.get("required", [])}:
            yield f"{at}.{name}: must be given"


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    return schema


def _kinds(schema: Schema) -> list[Schema]:
    return schema.get("anyOf") or schema.get("oneOf") or []


def _values_of(schema: Schema) -> frozenset[Any] | None:
    return (
        frozenset([schema["const"]] if "const" in schema else schema["enum"])
        if ("const" in schema or "enum" in schema)
        else None
    )


def lenient(schema: Any) -> Any:
    """Return a schema that passes over fields which it lacks, as readers do of all but commands."""
    if isinstance(schema, dict):
        return {
            name: lenient(part)
            for name, part in schema.items()
            if (name, part) != ("additionalProperties", False)
        }
    return [lenient(part) for part in schema] if isinstance(schema, list) else schema
