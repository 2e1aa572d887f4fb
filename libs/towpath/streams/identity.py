"""Message ids of results and rejected events, as columns of a Spark plan.

Two runs of a job give a result the same id, because ids are made from the result's meaning. Their grammar is
in `towpath.contracts.data_plane` and in PROTOCOL.md, section 15. The sink puts the life of the output stream
before each.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from towpath.contracts.data_plane import ID_SEPARATOR, PLAIN_ID, PROCESSED_MARK, REJECTED_MARK, input_code
from towpath.contracts.job import Assignment


@dataclass(frozen=True)
class Identities:
    """Makes the message ids of one job."""

    job: str
    inputs: tuple[str, ...]
    """For each input, in order, the code of its stream: so ids differ when inputs change."""

    @classmethod
    def of(cls, assignment: Assignment) -> Identities:
        """Make the ids of the job's results."""
        codes = (input_code(source.site, source.stream, source.subject) for source in assignment.inputs)
        return cls(assignment.spec.name, tuple(codes))

    def of_event(self, position: Column, serial: Column) -> Column:
        """Return the id of a result that stands for the event `serial` of the input at `position`."""
        return _joined(F.lit(self.job), text_at(self.inputs, position), serial)

    def of_rejected(self, position: Column, serial: Column) -> Column:
        """Return the id of a rejected event."""
        return _joined(F.lit(self.job), F.lit(REJECTED_MARK), text_at(self.inputs, position), serial)

    def of_window(self, start: Column, end: Column, key: Column | None) -> Column:
        """Return the id of a window between two times, for one key (JSON)."""
        return self._from_data(_milliseconds(start), _milliseconds(end), key)

    def of_range(self, after: Column, through: Column, key: Column | None) -> Column:
        """Return the id of a processing window over the serials `after` < n ≤ `through`, for a key (JSON)."""
        return self._from_data(F.lit(PROCESSED_MARK), after.cast("string"), through.cast("string"), key)

    def of_values(self, values: Column) -> Column:
        """Return the id of a result that its values (JSON) identify."""
        return self._from_data(values)

    def _from_data(self, *parts: Column | None) -> Column:
        """Return an id made from data: from its digest if it is long or has unusual characters."""
        plain = _joined(F.lit(self.job), *(part for part in parts if part is not None))
        return F.when(plain.rlike(PLAIN_ID), plain).otherwise(_joined(F.lit(self.job), F.sha2(plain, 256)))


def text_at(texts: tuple[str, ...], position: Column) -> Column:
    """Return the text at a position of the job's inputs."""
    if len(texts) == 1:
        return F.lit(texts[0])
    return F.element_at(F.array(*(F.lit(text) for text in texts)), position + 1)


def _joined(*parts: Column) -> Column:
    return F.concat_ws(ID_SEPARATOR, *parts)


def _milliseconds(time: Column) -> Column:
    return F.unix_millis(time).cast("string")
