"""Forms in which devices write events, other than JSON objects. The tag is `kind`.

An event of another form is read as the JSON object that says the same, so every operator can take it.
"""

from __future__ import annotations

import struct
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from towpath.contracts.message import Model
from towpath.contracts.operators import FieldName, Fields

_PREFIXES = "@=<>!"


class Csv(Model):
    """One line of values for each event, such as `carriage-7,0.12,-0.98`.

    An empty value is a missing field. Values that hold the delimiter, or a quotation mark, are quoted as in
    RFC 4180.
    """

    kind: Literal["csv"]
    columns: Fields = Field(min_length=1)
    """Field → type, in the order of the values. An event with more or fewer values is rejected."""
    delimiter: str = Field(default=",", min_length=1, max_length=1)


class SenMl(Model):
    """A pack of sensor measurements in JSON (RFC 8428), one value for each name.

    Each name becomes a field, with `_` for what no field name may hold. `device` is the base name, and `time`
    the newest time of the records, if they have one. An event with two values of one name is rejected.
    """

    kind: Literal["senml"]


class Binary(Model):
    """Packed numbers and texts of fixed length."""

    kind: Literal["binary"]
    layout: str = Field(min_length=1, max_length=200)
    """Bytes of an event, as Python's `struct` writes them: `<I3hf` is, with the lowest byte first, a number
    of 4 bytes, three of 2 bytes, and a float. An event of another length is rejected."""
    columns: list[FieldName] = Field(min_length=1)
    """Names of the values, in their order. Texts (`16s`) end at their first zero byte."""

    @field_validator("layout")
    @classmethod
    def _is_a_layout(cls, layout: str) -> str:
        if layout[0] not in _PREFIXES:
            raise ValueError("begin with < (lowest byte first) or > (highest byte first)")
        try:
            struct.calcsize(layout)
        except struct.error as error:
            raise ValueError(f"no layout of the module struct: {error}") from None
        return layout

    @model_validator(mode="after")
    def _names_each_value(self) -> Binary:
        count = len(struct.unpack(self.layout, bytes(struct.calcsize(self.layout))))
        if count != len(self.columns):
            raise ValueError(f"the layout has {count} values, and columns names {len(self.columns)}")
        if len(set(self.columns)) < count:
            raise ValueError("two columns have one name")
        return self


EventFormat = Annotated[Csv | SenMl | Binary, Field(discriminator="kind")]
