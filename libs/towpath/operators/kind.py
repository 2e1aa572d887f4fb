"""Describe a kind of operator: what it reads and writes, what it promises, and how it becomes a Spark plan.

A kind registers itself when its module is loaded. Everything that depends on a job's operator asks the kind
here. Coordinator and command line do so without Spark: a kind loads it when a plan is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from towpath.contracts.message import Model
from towpath.contracts.operators import FieldType, Operator
from towpath.descriptors import Descriptors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents
    from towpath.operators.processing_windows import MicroBatchWindow

PACKAGE = "towpath.operators.kinds"
"""Each of its modules registers one kind."""

Schema = dict[str, FieldType | None]
"""Field → type. None if only Spark knows the type."""

Op = TypeVar("Op", bound=Model)


class UserCode(Protocol):
    """An operator that runs code of the user."""

    entry: str
    """`package.module:function`."""
    artefact: str | None
    """Where the code lies; None for a module that the engines' environment has."""


def _none(operator: Any) -> None:
    return None


def _no(operator: Any) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class OperatorKind(Generic[Op]):
    """A kind of operator. `docs/extending/operator.md` says how to add one."""

    model: type[Op]
    """The model in a job's description; its `kind` is the name."""
    compile: Callable[[Op, JobEvents], DataFrame]
    """The results, see `compilation.compile_job`. Loads Spark when called."""
    reads: Callable[[Op], dict[str, FieldType]]
    """Fields that the operator cannot do without."""
    may_read: Callable[[Op], dict[str, FieldType]] = lambda operator: {}
    """Fields that an event may lack, and that must have their type in those that have them."""
    writes: Callable[[Op], Schema | None] = _none
    """Fields of its results; None if they are not known before it runs."""
    passes_on: bool = False
    """Events pass unchanged, so results have the fields that all inputs have in common."""
    rejects: Callable[[Op], bool] = _no
    """Its plan may reject an event that the source has let pass."""
    state: Callable[[Op], Any] = _none
    """All that the state depends on which it keeps between micro-batches, and which travels with the job: a
    change keeps the state if it leaves this as it is. None if the operator keeps no state."""
    watermarked: Callable[[Op], bool] = _no
    """Each input has a watermark, which the source restores after a restart."""
    needs_no_empty_batch: Callable[[Op], bool] = _no
    """With one input, whose windows are punctuated, a micro-batch publishes all that its events complete.
    Other operators with state need a further one without events."""
    nondeterminism: Callable[[Op], str | None] = _none
    """Why two runs over the same events may publish different results; None if they cannot."""
    batch_s: Callable[[Op], float | None] = _none
    """Seconds between micro-batches, in place of the job's `trigger_s`."""
    batch_events: Callable[[Op], int | None] = _none
    """The exact number of events in a micro-batch; None if a micro-batch takes what is there."""
    batch_window: Callable[[Op], MicroBatchWindow] | None = None
    """Where each result covers one micro-batch: makes the results of one from the rows of the plan."""
    user_code: Callable[[Op], UserCode | None] = _none
    """The code of the user that the operator runs."""
    with_code_at: Callable[[Op, str], Op] = lambda operator, path: operator
    """The operator with the code at another path."""

    @property
    def name(self) -> str:
        """The name on the wire."""
        return self.model.model_fields["kind"].default

    @property
    def covers_batches(self) -> bool:
        """Each result covers the serial numbers of one micro-batch, and no state is kept between them."""
        return self.batch_window is not None


KINDS = Descriptors[OperatorKind[Any]]("operator", [PACKAGE])


def register(kind: OperatorKind[Op]) -> OperatorKind[Op]:
    """Make a kind known. Raises `ValueError` when another one has its name."""
    KINDS.register(kind.name, kind)
    return kind


def kinds() -> Mapping[str, OperatorKind[Any]]:
    """Return all kinds by name, in the order of their names."""
    return KINDS.by_name()


def kind_of(operator: Operator) -> OperatorKind[Any]:
    """The kind of a job's operator."""
    return KINDS[operator.kind]


def keeps_state(operator: Operator) -> bool:
    """Return true if an operator keeps state between micro-batches."""
    return kind_of(operator).state(operator) is not None


def user_code(operator: Operator) -> UserCode | None:
    """The code of the user that an operator runs; None if it runs none."""
    return kind_of(operator).user_code(operator)


def with_code_at(operator: Operator, path: str) -> Operator:
    """Return an operator that runs code of the user, with the code at another path."""
    return kind_of(operator).with_code_at(operator, path)
