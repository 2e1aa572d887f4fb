"""The `python` operator: a function of the user takes a DataFrame of events, and returns one of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Python
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_python(operator: Python, events: JobEvents) -> DataFrame:
    """The results of the function."""
    from towpath.operators.user_code import made_by, undeclared

    if operator.fields:
        rows = events.typed(operator.fields)
    else:
        rows = [undeclared(whole) for whole in events.whole()]
    return made_by(rows, operator)


PYTHON = register(
    OperatorKind(
        model=Python,
        compile=compile_python,
        reads=lambda operator: operator.fields,
        # What code keeps is not known: it is taken to keep state that depends on all of it.
        state=lambda operator: operator.model_dump(exclude={"name"}),
        nondeterminism=lambda operator: "user code may give other results in other micro-batches",
        user_code=lambda operator: operator,
        with_code_at=lambda operator, path: operator.model_copy(update={"artefact": path}),
    )
)
