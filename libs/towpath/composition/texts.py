"""Read YAML and JSON texts as plain data. Anything ambiguous is refused with line and column."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from towpath.contracts.errors import ErrorCode, TowpathError

MAX_CHARACTERS = 4_000_000
"""Longest text that is read. A thousand jobs need about a tenth of that."""

MAX_NODES = 500_000
"""Most values in a text with its anchors expanded: a few lines of YAML can stand for billions."""


def load_all_yaml(text: str) -> list[Any]:
    """Return all documents of a YAML text. Raises `TowpathError` (invalid) naming line and column."""
    try:
        found = list(yaml.load_all(_short_enough(text), Loader=_UniqueKeys))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _refused(f"not YAML{place}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise _refused(f"not YAML: {error}") from error
    except (ValueError, RecursionError) as error:
        # For example a date that no calendar has, or a thousand brackets.
        raise _refused(f"not YAML that can be read: {error}") from error
    _check_size(found)
    return found


def load_all(text: str, media_type: str | None = None) -> list[Any]:
    """Return all documents of a text, which is told from YAML as in `load`: JSON has exactly one."""
    return [_load_json(text)] if _is_json(text, media_type) else load_all_yaml(text)


def load(text: str, media_type: str | None = None) -> Any:
    """Return the one document of a text: JSON if `media_type` or its first character says so, else YAML.

    Raises `TowpathError` (invalid) naming line and column.
    """
    found = load_all(text, media_type)
    if len(found) != 1:
        raise _refused(f"{len(found)} documents in one text", allowed="one document")
    return found[0]


def _is_json(text: str, media_type: str | None) -> bool:
    if media_type is not None and ("json" in media_type or "yaml" in media_type):
        return "json" in media_type
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        # YAML has braces, too, and its parser names the place of the error better.
        return False
    return True


def _load_json(text: str) -> Any:
    twice: list[str] = []

    def of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        twice.extend(key for key, _ in pairs if key in seen or seen.add(key))
        return dict(pairs)

    try:
        found = json.loads(_short_enough(text), object_pairs_hook=of_pairs)
    except json.JSONDecodeError as error:
        raise _refused(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"not JSON that can be read: {error}") from error
    if twice:
        # JSON is YAML, except that tabs may stand between its values.
        load_all_yaml(text.replace("\t", " "))
        raise _refused(f"not JSON: {twice[0]!r} occurs twice in one object")
    _check_size([found])
    return found


def _short_enough(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise _refused(
            "the text is too long", value=len(text), allowed=f"at most {MAX_CHARACTERS} characters"
        )
    return text


def _check_size(documents: list[Any]) -> None:
    """Raise `TowpathError` if a text has too many values, contains itself, or has an infinite number."""
    sizes: dict[int, int] = {}
    try:
        total = sum(_size(document, sizes, frozenset()) for document in documents)
    except RecursionError as error:
        raise _refused("the text nests too deeply") from error
    if total > MAX_NODES:
        raise _refused(
            "the text has too many values", value=total, allowed=f"at most {MAX_NODES}, anchors written out"
        )


def _size(node: Any, sizes: dict[int, int], around: frozenset[int]) -> int:
    """Return the number of values in a node. An anchor's values count at each use, but are walked once."""
    if isinstance(node, float) and not math.isfinite(node):
        raise _refused("not a finite number", value=str(node), allowed="finite numbers")
    if not isinstance(node, dict | list):
        return 1
    if id(node) in around:
        raise _refused("an anchor is used inside itself")
    if id(node) not in sizes:
        inner = around | {id(node)}
        sizes[id(node)] = 1 + sum(_size(value, sizes, inner) for value in _values(node))
    return sizes[id(node)]


def _values(node: dict[Any, Any] | list[Any]) -> Iterator[Any]:
    return iter(node.values() if isinstance(node, dict) else node)


def _refused(message: str, **place: Any) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, message, **place)


class _UniqueKeys(yaml.SafeLoader):
    """YAML forbids a key twice in one mapping. PyYAML would silently keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"{key.value!r} occurs twice in one mapping", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)
