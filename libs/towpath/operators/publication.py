"""Make the messages of a job: their ids, whether they are rejected events, and the JSON of the contract.

Site and epoch may differ between two runs of one job on one checkpoint. They are constants of this last
projection, above any stateful operator.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.job import Assignment
from towpath.operators.columns import INPUT, REASON, SERIAL, STORED_AT, TEXT, instant, json_object, named
from towpath.streams.identity import Identities, text_at


@dataclass(frozen=True)
class ResultParts:
    """The columns of one result. An object of the contract is JSON here, and null is left out."""

    values: Column
    """JSON object."""
    serial: Column
    stored_at: Column
    """Timestamp."""
    input: Column | None = None
    """Position of the input, for jobs with several."""
    window: Column | None = None
    """JSON object."""
    count: Column | None = None
    """1, unless given."""
    after: Column | None = None
    """A processing-time window covers the serial numbers behind this one, up to `through`."""
    through: Column | None = None
    key: Column | None = None
    """JSON object."""
    closed_at: Column | None = None
    """End of the window, timestamp."""


@dataclass(frozen=True)
class Publication:
    """Makes results of one job at one site and epoch."""

    job: str
    site: str
    epoch: int
    inputs: tuple[str, ...]
    """Names of the inputs, in order."""
    identities: Identities
    """Makes the results' message ids."""

    @classmethod
    def of(cls, assignment: Assignment, site: str) -> Publication:
        """The publication of `assignment`'s results when `site` computes them."""
        names = tuple(source.name for source in assignment.inputs)
        return cls(assignment.spec.name, site, assignment.epoch, names, Identities.of(assignment))

    @property
    def has_several_inputs(self) -> bool:
        """Results say which input they come from."""
        return len(self.inputs) > 1

    def input_name(self, position: Column) -> Column:
        """The name of the input at `position`."""
        return text_at(self.inputs, position)

    def event_id(self) -> Column:
        """The message id of a result that stands for its row's event."""
        return self.identities.of_event(F.col(INPUT), F.col(SERIAL))

    def body(self, parts: ResultParts) -> Column:
        """JSON of `contracts.result.Result`. `values` comes last, because `passage` relies on that."""
        head = json.dumps({"job": self.job, "site": self.site, "epoch": self.epoch}, separators=(",", ":"))
        input_name = None
        if parts.input is not None and self.has_several_inputs:
            input_name = _quoted(self.input_name(parts.input))
        members = [
            F.lit(head[:-1]),
            _member("serial", _text(parts.serial)),
            _member("input", input_name),
            _member("stored_at", _quoted(instant(parts.stored_at))),
            _member("window", parts.window),
            _member("count", F.lit("1") if parts.count is None else _text(parts.count)),
            _member("after", _text(parts.after)),
            _member("through", _text(parts.through)),
            _member("key", parts.key),
            _member("values", parts.values),
            F.lit("}"),
        ]
        return F.concat(*members)

    def position(self, parts: ResultParts, rejected: Column) -> Column:
        """The place of a message in its micro-batch: windows by their end, events by their serial number.

        Spark returns closed windows in the order of its state's bytes.
        """
        if parts.closed_at is None:
            return parts.serial.cast("bigint")
        return F.when(~rejected, F.unix_micros(parts.closed_at)).otherwise(F.col(SERIAL))

    def _rejected_id(self) -> Column:
        return self.identities.of_rejected(F.col(INPUT), F.col(SERIAL))

    def rejected_body(self) -> Column:
        """JSON of `contracts.result.Rejected`."""
        return json_object(
            [
                F.lit(self.job).alias("job"),
                F.col(SERIAL).alias("serial"),
                self.input_name(F.col(INPUT)).alias("input"),
                instant(F.col(STORED_AT)).alias("stored_at"),
                named(REASON).alias("reason"),
                named(TEXT).alias("event"),
            ]
        )

    def of_events(self, rows: DataFrame, message_id: Column, parts: ResultParts) -> DataFrame:
        """One message per row: a result, or a rejected event where there is a reason."""
        return rows.select(self.columns(message_id, parts))

    def columns(self, message_id: Column, parts: ResultParts) -> list[Column]:
        """The columns of `of_events`."""
        rejected = named(REASON).isNotNull()
        return [
            self.position(parts, rejected).alias("position"),
            F.when(rejected, self._rejected_id()).otherwise(message_id).alias("message_id"),
            rejected.alias("rejected"),
            F.when(rejected, self.rejected_body()).otherwise(self.body(parts)).alias("body"),
        ]

    def of_values(self, rows: DataFrame, values: list[Column], message_id: Column | None = None) -> DataFrame:
        """One message per event: a result with these values, or the event where it is rejected."""
        parts = ResultParts(
            values=json_object(values), serial=F.col(SERIAL), stored_at=F.col(STORED_AT), input=F.col(INPUT)
        )
        return self.of_events(rows, self.event_id() if message_id is None else message_id, parts)

    def of_results(self, rows: DataFrame, message_id: Column, parts: ResultParts) -> DataFrame:
        """One result per row."""
        return rows.select(
            self.position(parts, F.lit(False)).alias("position"),
            message_id.alias("message_id"),
            F.lit(False).alias("rejected"),
            self.body(parts).alias("body"),
        )

    def of_rejected(self, rows: DataFrame) -> DataFrame:
        """One rejected event per row that has a reason."""
        return rows.where(named(REASON).isNotNull()).select(
            F.col(SERIAL).alias("position"),
            self._rejected_id().alias("message_id"),
            F.lit(True).alias("rejected"),
            self.rejected_body().alias("body"),
        )


def _quoted(text: Column) -> Column:
    """JSON of a string that needs no escapes: times, and names of inputs."""
    return F.concat(F.lit('"'), text, F.lit('"'))


def _text(number: Column | None) -> Column | None:
    return None if number is None else number.cast("string")


def _member(name: str, value: Column | None) -> Column:
    if value is None:
        return F.lit("")
    return F.coalesce(F.concat(F.lit(f',"{name}":'), value), F.lit(""))
