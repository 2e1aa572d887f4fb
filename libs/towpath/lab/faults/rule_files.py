"""Reads rules from YAML and JSON. What is wrong is said with the file and the line where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import Rule
from towpath.lab.faults.rule_form import Location, form_problems, rule_of

MAX_CHARACTERS = 1_000_000
MAX_VALUES = 100_000
"""Of one file, anchors written out: a few lines of YAML can stand for billions."""

MAX_DEPTH = 40
MAX_RULES = 1_000

RULES = "rules"
_FORMS = "a rule, a list of rules, or `rules:` with a list of rules"


def read_rules(given: Any, source_name: str = "rules") -> list[Rule]:
    """The rules of a YAML or JSON text, or of plain data: one, a list, `rules:` with a list; several
    documents count together.

    Raises `TowpathError` (invalid) with all that is wrong in `detail.errors`; each message begins with
    `source_name` and, for a text, the line.
    """
    source = _Text(given, source_name) if isinstance(given, str) else _Data(given, source_name)
    rules: list[Rule] = []
    errors: list[ErrorDetail] = []
    for location, document in _found(source):
        rule, wrong = _read(document)
        errors.extend(source.placed(location, detail) for detail in wrong)
        if rule is not None and any(rule.name == other.name for other in rules):
            twice = _error("another rule has this name, too", "name", rule.name)
            errors.append(source.placed(location, twice))
        rules.extend([rule] if rule is not None else [])
    if errors:
        raise TowpathError.of(errors[0].model_copy(update={"errors": errors}))
    if not rules:
        raise TowpathError(ErrorCode.INVALID, f"{source_name}: there are no rules in it", allowed=_FORMS)
    return rules


def _read(document: Any) -> tuple[Rule | None, list[ErrorDetail]]:
    if not isinstance(document, dict):
        return None, [_error("this is no rule", None, document).model_copy(update={"allowed": _FORMS})]
    try:
        rule = rule_of(document)
    except TowpathError as error:
        return None, [*error.detail.errors]
    return rule, form_problems(rule)


def _found(source: _Data) -> Iterator[tuple[Location, Any]]:
    """Each rule, and where it stands."""
    for number, document in enumerate(source.documents):
        where: Location = (number,)
        if isinstance(document, dict) and RULES in document:
            yield from _strays(where, document)
            where, document = (number, RULES), document[RULES]
        if isinstance(document, list) and len(document) <= MAX_RULES:
            yield from (((*where, place), rule) for place, rule in enumerate(document))
        elif document is not None:
            yield where, document


def _strays(where: Location, document: Mapping[str, Any]) -> Iterator[tuple[Location, Any]]:
    """Other keys beside `rules` make the document neither a list of rules nor a rule."""
    if document.keys() - {RULES, "version", "description"}:
        yield where, {key: value for key, value in document.items() if key != RULES}


def _error(message: str, field: str | None, value: Any) -> ErrorDetail:
    shown = value if isinstance(value, str | int | float | bool) else None
    return ErrorDetail(code=ErrorCode.INVALID, message=message, field=field, value=shown)


class _Data:
    """Rules that a program gives."""

    def __init__(self, given: Any, name: str) -> None:
        self.name = name
        self.documents: list[Any] = [given]

    def placed(self, location: Location, detail: ErrorDetail) -> ErrorDetail:
        """An error of the rule at a location, as an error of the whole."""
        path = ".".join(map(str, location[1:]))
        field = ".".join(part for part in (path, detail.field) if part) or None
        place = (*location, *_parts(detail.field))
        return detail.model_copy(update={"field": field, "message": f"{self.at(place)}: {detail.message}"})

    def at(self, place: Location) -> str:
        """What people call the place."""
        return self.name


class _Text(_Data):
    """Rules in a file."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(None, name)
        self._lines: dict[Location, int] = {}
        if len(text) > MAX_CHARACTERS:
            raise self._refused(f"has {len(text)} characters", f"at most {MAX_CHARACTERS}")
        self.documents = self._json(text)
        try:
            self._read_yaml(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            raise self._refused(f"not YAML: {error.problem}", None, line) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self._refused(f"not YAML that can be read: {error}", None) from None

    def at(self, place: Location) -> str:
        """File and line."""
        while place and place not in self._lines:
            place = place[:-1]
        return f"{self.name}:{self._lines[place]}" if place in self._lines else self.name

    def _json(self, text: str) -> list[Any]:
        """The document of a JSON text; none of any other."""
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            return []

    def _read_yaml(self, text: str) -> None:
        is_json = bool(self.documents)
        # JSON may have tabs between its values, YAML may not; in texts of JSON there are none.
        loader = yaml.SafeLoader(text.replace("\t", " ") if is_json else text)
        try:
            number = 0
            while loader.check_node():
                node = loader.get_node()
                self._note_lines(node, (number,))
                if not is_json and node is not None:
                    self.documents.append(loader.construct_document(node))
                number += 1
        finally:
            loader.dispose()

    def _note_lines(self, node: yaml.Node | None, place: Location) -> None:
        if node is None:
            return
        if len(self._lines) >= MAX_VALUES or len(place) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_VALUES} values, or {MAX_DEPTH} levels")
        self._lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self._note_lines(item, (*place, number))
        elif isinstance(node, yaml.MappingNode):
            self._note_keys(node, place)

    def _note_keys(self, node: yaml.MappingNode, place: Location) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name in seen and name != "<<":
                raise yaml.constructor.ConstructorError(
                    problem=f"{name!r} stands there twice", problem_mark=key.start_mark
                )
            seen.add(name)
            self._lines[(*place, name)] = key.start_mark.line + 1
            self._note_lines(value, (*place, name))

    def _refused(self, message: str, allowed: str | None, place: str = "") -> TowpathError:
        return TowpathError(ErrorCode.INVALID, f"{self.name}{place}: {message}", allowed=allowed)


def _parts(field: str | None) -> Location:
    parts = (field or "").split(".") if field else []
    return tuple(int(part) if part.isdecimal() else part for part in parts)
