"""Files with fault rules: what is wrong is told with file and line, one error a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
import yaml

from towpath.cli.endings import BAD_INPUT, complain
from towpath.cli.failures import INPUT_CODES
from towpath.cli.pipeline_files import text_of
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import Rule
from towpath.lab.faults.validation import read_rules

_OF_RULE = re.compile(r"rules\.(?P<number>\d+)\.?(?P<field>.*)")
"""A field of one of the rules of a command."""


@dataclass(frozen=True)
class FileRule:
    """A rule, and the file it stands in."""

    rule: Rule
    path: Path
    node: yaml.Node | None
    """Where it stands there; null when that was not found."""

    def complain(self, error: ErrorDetail) -> None:
        """Say on one line what is wrong with the rule, with the line of the field."""
        complain(f"{self.path}{self._line(error.field or '')}: {error.one_line()}")

    def _line(self, field: str) -> str:
        if self.node is None:
            return ""
        place = _place(self.node, field.split("."))
        return f":{place.start_mark.line + 1}"


def read_files(paths: Sequence[Path], *, for_s: float | None = None) -> list[FileRule]:
    """The rules of all files; `for_s` is how long each stays, if not as the file says.

    Raises `typer.Exit` when something is wrong with what they say, and has said what.
    """
    found: list[FileRule] = []
    for path in paths:
        text = text_of(path)
        try:
            rules = read_rules(text, str(path))
        except TowpathError as error:
            for each in error.detail.errors or [error.detail]:
                complain(each.one_line())
            raise typer.Exit(BAD_INPUT) from error
        nodes = _nodes(text)
        found += [FileRule(rule, path, nodes.get(rule.name)) for rule in rules]
    _check_names(found)
    if for_s is None:
        return found
    return [FileRule(each.rule.model_copy(update={"for_s": for_s}), each.path, each.node) for each in found]


@contextmanager
def telling(read: Sequence[FileRule]) -> Iterator[None]:
    """Say what is wrong with rules that were sent, one error a line, and end with the exit code for it."""
    try:
        yield
    except TowpathError as error:
        if error.detail.code not in INPUT_CODES or not error.detail.errors:
            raise
        for each in error.detail.errors:
            found = _OF_RULE.fullmatch(each.field or "")
            if found is None:
                complain(each.one_line())
            else:
                read[int(found["number"])].complain(each.model_copy(update={"field": found["field"] or None}))
        raise typer.Exit(BAD_INPUT) from error


def _check_names(read: Sequence[FileRule]) -> None:
    first: dict[str, FileRule] = {}
    for each in read:
        other = first.setdefault(each.rule.name, each)
        if other is not each:
            each.complain(
                ErrorDetail(
                    code=ErrorCode.INVALID,
                    message=f"a rule of {other.path} has this name, too",
                    field="name",
                    value=each.rule.name,
                )
            )
            raise typer.Exit(BAD_INPUT)


def _nodes(text: str) -> dict[str, yaml.Node]:
    """Rule → its node in a text that was found right. JSON with tabs is no YAML, and has none."""
    try:
        documents = [*yaml.compose_all(text, yaml.SafeLoader)]
    except yaml.YAMLError:
        return {}
    return {name: node for document in documents for name, node in _named(document)}


def _named(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Mappings with a name, of a document that is a rule, a list of them, or `rules:` with a list."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _named(item)
    elif isinstance(node, yaml.MappingNode):
        fields = {key.value: value for key, value in node.value}
        if "rules" in fields:
            yield from _named(fields["rules"])
        elif isinstance(fields.get("name"), yaml.ScalarNode):
            yield fields["name"].value, node


def _place(node: yaml.Node, field: Sequence[str]) -> yaml.Node:
    """The innermost node on the way to a field: the key, so that its line is where people look."""
    if not field:
        return node
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == field[0]:
                inner = _place(value, field[1:])
                return key if inner is value else inner
    elif isinstance(node, yaml.SequenceNode) and field[0].isdecimal() and int(field[0]) < len(node.value):
        return _place(node.value[int(field[0])], field[1:])
    return node
