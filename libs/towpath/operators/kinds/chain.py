"""The `chain` operator: several operators in a row, as one query with one checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.contracts.operators import Chain, Step
from towpath.operators.kind import OperatorKind, UserCode, keeps_state, kind_of, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_chain(operator: Chain, events: JobEvents) -> DataFrame:
    """The results of the last step."""
    from towpath.operators.chains import results_of_steps

    return results_of_steps(operator, events)


def state(operator: Chain) -> Any:
    """The state of the steps that keep one. That of a single step is the same as in a job of its own."""
    kept = [kind_of(step).state(step) for step in operator.steps if keeps_state(step)]
    return {"steps": kept} if len(kept) > 1 else next(iter(kept), None)


def nondeterminism(operator: Chain) -> str | None:
    """That of the first step that has one."""
    found = ((name, kind_of(step).nondeterminism(step)) for name, step in _named(operator))
    return next((f"step {name}: {why}" for name, why in found if why is not None), None)


def user_code(operator: Chain) -> UserCode | None:
    """The code of the only step that runs some."""
    return next((code for step in operator.steps if (code := kind_of(step).user_code(step))), None)


def with_code_at(operator: Chain, path: str) -> Chain:
    """The chain with that step's code at another path."""
    steps = [kind_of(step).with_code_at(step, path) for step in operator.steps]
    return operator.model_copy(update={"steps": steps})


def _named(operator: Chain) -> list[tuple[str, Step]]:
    return [*zip(operator.step_names, operator.steps, strict=True)]


CHAIN = register(
    OperatorKind(
        model=Chain,
        compile=compile_chain,
        reads=lambda operator: kind_of(operator.steps[0]).reads(operator.steps[0]),
        may_read=lambda operator: kind_of(operator.steps[0]).may_read(operator.steps[0]),
        writes=lambda operator: kind_of(operator.steps[-1]).writes(operator.steps[-1]),
        rejects=lambda operator: any(kind_of(step).rejects(step) for step in operator.steps),
        state=state,
        watermarked=lambda operator: any(kind_of(step).watermarked(step) for step in operator.steps),
        nondeterminism=nondeterminism,
        user_code=user_code,
        with_code_at=with_code_at,
    )
)
