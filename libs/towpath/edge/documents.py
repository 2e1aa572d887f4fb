"""Read data models from YAML or JSON. Every error has its place, and all are told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from towpath.composition.texts import load_all
from towpath.composition.violations import all_at_once, violations
from towpath.contracts.data_model import DataModel
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.job import JobSpec
from towpath.edge.compilation import job_of


@dataclass(frozen=True)
class ModelJob:
    """A data model, and the job that runs it."""

    model: DataModel
    job: JobSpec


def read_models(text: str) -> list[ModelJob]:
    """Return the data models of a text: one, several documents, or a list under `models`.

    Raises `TowpathError` with all errors in `detail.errors`.
    """
    found: list[ModelJob] = []
    errors: list[ErrorDetail] = []
    for content in _contents(load_all(text)):
        try:
            model = DataModel.model_validate(content)
            found.append(ModelJob(model, job_of(model)))
        except ValidationError as error:
            errors += violations(error, content)
    names = [each.model.name for each in found]
    errors += [_twice(name) for name in dict.fromkeys(names) if names.count(name) > 1]
    if errors:
        raise all_at_once(errors, "the data models")
    if not found:
        raise TowpathError(
            ErrorCode.INVALID,
            "no data model in this file",
            allowed="one model, several documents, or `models:`",
        )
    return found


def _contents(documents: list[Any]) -> list[Any]:
    contents: list[Any] = []
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("models"), list):
            contents += document["models"]
        elif document is not None:
            contents.append(document)
    return contents


def _twice(name: str) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.NAME_IN_USE, message="two models have this name", field="name", value=name
    )
