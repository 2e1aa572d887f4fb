"""Read the events of a job as its operator wants them: in typed columns, or unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from towpath.contracts.job import Assignment
from towpath.contracts.operators import FieldType
from towpath.operators.expressions import check_names
from towpath.operators.parsing import parse
from towpath.operators.passage import pass_on
from towpath.operators.publication import Publication


@dataclass(frozen=True)
class JobEvents:
    """The messages of a job's inputs, and what makes results of them."""

    assignment: Assignment
    messages: list[DataFrame]
    """One frame for each input, see `compilation.compile_job`."""
    publication: Publication

    def typed(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """The events of each input with these fields as columns, see `parsing.parse`."""
        check_names([*fields], "operator.fields")
        inputs = zip(self.messages, self.assignment.inputs, strict=True)
        return [parse(frame, source, position, fields) for position, (frame, source) in enumerate(inputs)]

    def unchanged(self) -> list[DataFrame]:
        """The events of each input with their JSON as it came, see `passage.pass_on`."""
        inputs = zip(self.messages, self.assignment.inputs, strict=True)
        return [pass_on(frame, source, position) for position, (frame, source) in enumerate(inputs)]
