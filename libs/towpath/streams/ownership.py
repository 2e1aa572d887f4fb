"""Rules of ownership: one owner at a time may publish a job's results, named by its site and its epoch.

The output stream decides. It listens to the subject of one owner and epoch, so its server refuses every other
owner. Only while a job has a twin it listens to two.
`OutputStreams.accept` sets these subjects. Others ask here to find out earlier, or to know what to do:

- a publisher whose message no stream took asks where its results belong (`place_of`);
- agents and streams refuse commands whose epoch is over (`check_epoch`);
- the coordinator compares epochs before it gives a new one (`coordinator/registry/scripts.py`).
"""

from __future__ import annotations

from enum import Enum, auto

from towpath.contracts.data_plane import DIVERTED, ResultSubject
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.streams.failures import Fenced
from towpath.streams.stream_view import StreamView


class ResultStream(Enum):
    """The stream that an owner's results belong in."""

    OUTPUT = auto()
    SHADOW = auto()


def place_of(subject: str, output: StreamView) -> ResultStream:
    """Return the stream in which results under `subject`, which names an epoch, belong at the moment.

    Raises `Fenced` when that epoch is over, or another owner's.
    """
    mine = ResultSubject.of(subject).epoch
    if subject in output.subjects:
        return ResultStream.OUTPUT
    is_diverted = output.metadata.get(DIVERTED) == str(mine)
    if is_diverted or is_behind(output, mine):
        return ResultStream.SHADOW
    raise Fenced(f"{subject} is refused: {output.name} accepts {', '.join(output.subjects)}")


def is_behind(output: StreamView, epoch: int) -> bool:
    """Tell if an output still accepts an earlier epoch: results of this one wait beside it."""
    accepted = accepted_epoch(output)
    return accepted is not None and accepted < epoch


def accepted_epoch(output: StreamView | None) -> int | None:
    """Return the latest epoch that an output stream accepts; None when there is no stream, or it has none."""
    return max(output.epochs, default=None) if output is not None else None


def check_epoch(what: str, epoch: int, known: int | None) -> None:
    """Raise `TowpathError` (fenced) if `what` has come to a later epoch than the one it is told."""
    if known is not None and known > epoch:
        raise epoch_is_over(what, epoch, known)


def epoch_is_over(what: str, epoch: int, known: int) -> TowpathError:
    """Return the refusal of an epoch that `what` has passed."""
    return TowpathError(
        ErrorCode.FENCED,
        f"{what} is at epoch {known} already",
        field="epoch",
        value=epoch,
        allowed=f"{known} or more",
    )
