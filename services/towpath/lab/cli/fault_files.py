"""Files with fault rules: each error stands on a line of its own, with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from towpath.cli.endings import BAD_INPUT, complain
from towpath.cli.failures import INPUT_CODES
from towpath.cli.pipeline_files import text_of
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.lab.faults.rule_files import WrittenRule, read_rules

_OF_RULE = re.compile(r"rules\.(?P<number>\d+)\.?(?P<field>.*)")
"""A field of one of the rules of a command."""


def read_files(paths: Sequence[Path], *, for_s: float | None = None) -> list[WrittenRule]:
    """Return the rules of all files. `for_s` is how long each stays; None: as the file says.

    Raises `typer.Exit` after it has printed what is wrong with the files.
    """
    found: list[WrittenRule] = []
    for path in paths:
        try:
            found += read_rules(text_of(path), str(path))
        except TowpathError as error:
            raise _refused(error.detail.errors or [error.detail]) from error
    _check_names(found)
    if for_s is None:
        return found
    return [replace(each, rule=each.rule.model_copy(update={"for_s": for_s})) for each in found]


@contextmanager
def telling(read: Sequence[WrittenRule]) -> Iterator[None]:
    """Print what is wrong with rules that were sent, one error per line, and end with its exit code."""
    try:
        yield
    except TowpathError as error:
        if error.detail.code not in INPUT_CODES or not error.detail.errors:
            raise
        raise _refused([_located(each, read) for each in error.detail.errors]) from error


def _located(error: ErrorDetail, read: Sequence[WrittenRule]) -> ErrorDetail:
    found = _OF_RULE.fullmatch(error.field or "")
    if found is None:
        return error
    return read[int(found["number"])].located(error.model_copy(update={"field": found["field"] or None}))


def _check_names(read: Sequence[WrittenRule]) -> None:
    first: dict[str, WrittenRule] = {}
    for each in read:
        other = first.setdefault(each.rule.name, each)
        if other is not each:
            message = f"a rule of {other.place.file} has this name, too"
            error = ErrorDetail(code=ErrorCode.INVALID, message=message, field="name", value=each.rule.name)
            raise _refused([each.located(error)])


def _refused(errors: Sequence[ErrorDetail]) -> typer.Exit:
    for each in errors:
        complain(each.one_line())
    return typer.Exit(BAD_INPUT)
