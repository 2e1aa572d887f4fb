"""Read fault rules from YAML and JSON texts. Each error names the file, and the line of its field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from towpath.composition.texts import load_all
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import Rule
from towpath.lab.faults.rule_form import form_problems, rule_of

FORMS = "a rule, a list of rules, or `rules:` with a list of rules"

_BESIDE_RULES = ("rules", "version", "description")
"""Keys that a document with a list of rules may have."""


@dataclass(frozen=True)
class WrittenRule:
    """A rule, and the place where a file has it."""

    rule: Rule
    place: RulePlace

    def located(self, error: ErrorDetail) -> ErrorDetail:
        """Return an error of this rule with file and line of its field."""
        return self.place.located(error)


@dataclass(frozen=True)
class RulePlace:
    """A value in a file."""

    file: str
    node: yaml.Node | None
    """None if the text has no lines that YAML could tell."""

    def located(self, error: ErrorDetail) -> ErrorDetail:
        """Return an error of this value with file and line of its field."""
        node = _innermost(self.node, error.field.split(".") if error.field else ())
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        return error.model_copy(update={"message": f"{self.file}{line}: {error.message}"})

    def under(self, key: str | int) -> RulePlace:
        """Return the place of one of its values."""
        return RulePlace(self.file, _child(self.node, str(key)))


def read_rules(text: str, file: str = "rules") -> list[WrittenRule]:
    """Return the rules of a text: one, a list, or `rules:` with a list. Several documents count together.

    Raises `TowpathError` (invalid) with all errors in `detail.errors`. Each message begins with `file`.
    """
    try:
        documents = load_all(text)
    except TowpathError as error:
        message = f"{file}: {error.detail.message}"
        raise TowpathError.of(error.detail.model_copy(update={"message": message})) from error
    rules: list[WrittenRule] = []
    errors: list[ErrorDetail] = []
    for document, node in zip(documents, _nodes(text, len(documents)), strict=True):
        for place, content in _found(document, RulePlace(file, node), errors):
            rule, wrong = _read(content)
            errors += map(place.located, wrong)
            rules += [WrittenRule(rule, place)] if rule is not None else []
    if errors:
        raise TowpathError.of(errors[0].model_copy(update={"errors": errors}))
    if not rules:
        raise TowpathError(ErrorCode.INVALID, f"{file}: there are no rules in it", allowed=FORMS)
    return rules


def _read(content: Any) -> tuple[Rule | None, Sequence[ErrorDetail]]:
    if not isinstance(content, dict):
        shown = content if isinstance(content, str | int | float | bool) else None
        return None, [_error("this is no rule", value=shown, allowed=FORMS)]
    try:
        rule = rule_of(content)
    except TowpathError as error:
        return None, error.detail.errors
    return rule, form_problems(rule)


def _found(document: Any, place: RulePlace, errors: list[ErrorDetail]) -> Iterator[tuple[RulePlace, Any]]:
    """Yield each rule of a document with its place. Add to `errors` what stands beside a list of rules."""
    if isinstance(document, dict) and "rules" in document:
        for key in document:
            if key not in _BESIDE_RULES:
                stray = _error("there is no such field", field=str(key), allowed=[*_BESIDE_RULES])
                errors.append(place.located(stray))
        place, document = place.under("rules"), document["rules"]
    if isinstance(document, list):
        yield from ((place.under(number), rule) for number, rule in enumerate(document))
    elif document is not None:
        yield place, document


def _error(message: str, **parts: Any) -> ErrorDetail:
    return ErrorDetail(code=ErrorCode.INVALID, message=message, **parts)


def _nodes(text: str, documents: int) -> Sequence[yaml.Node | None]:
    """Return the node of each document."""
    try:
        # JSON may have tabs between its values, which YAML may not.
        nodes = [*yaml.compose_all(text.replace("\t", " "), yaml.SafeLoader)]
    except (yaml.YAMLError, RecursionError):
        nodes = []
    return nodes if len(nodes) == documents else [None] * documents


def _innermost(node: yaml.Node | None, path: Sequence[str]) -> yaml.Node | None:
    """Return the innermost node on the way to a field: its key, as people look for that."""
    if not path:
        return node
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == path[0]:
                inner = _innermost(value, path[1:])
                return key if inner is value else inner
    elif (child := _child(node, path[0])) is not None:
        return _innermost(child, path[1:])
    return node


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
        return node.value[int(key)]
    return None
