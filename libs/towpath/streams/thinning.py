"""Leave out events of which a job needs no more, or which it cannot process in time, and weigh the others.

Events fall into strata by the values of some fields, and each stratum has its own share. An event is chosen
by its serial number, so a smaller share is a part of a larger one. It stands for 1 / share events (Horvitz
and Thompson, 1952). A stratum without a share is read whole: a new key is exact until enough is known of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from towpath.streams.reading import WEIGHT, Reading
from towpath.streams.sampling import sampled
from towpath.streams.typed_events import TypedEvents

BETWEEN = "\x1f"
"""Between the values of a stratum. None begins with anything but `=`."""

ALL = "*"
"""In shares: a factor of all of them, below 1 while the job is behind. No stratum has this name."""

LEAST_SHARE = 1 / 64

BEHIND_S = 5.0
"""A job with salience 0 reads less when it is so far behind, and one with 100 when it is 11 times as far.
Restarts and moves take less."""

LEAST_FACTOR = 1 / 16


@dataclass(frozen=True)
class ThinningOption:
    """The permission to leave events out, as an option of the source. See `contracts.job.Thinning`."""

    strata: tuple[str, ...]
    salience: int | None

    @classmethod
    def of(cls, option: str) -> ThinningOption | None:
        """Return the permission in a source's option; None if it is empty."""
        if not option:
            return None
        document = json.loads(option)
        return cls(tuple(document["strata"]), document["salience"])

    def option(self) -> str:
        """Return what `of` reads."""
        return json.dumps({"strata": self.strata, "salience": self.salience})


def stratum_of(values: Sequence[str]) -> str:
    """Return the name of a stratum. Each value is a text behind `=`, or empty for none."""
    return BETWEEN.join(values)


def factor_behind(salience: int | None, behind_s: float) -> float:
    """Return the factor of all shares for a job whose next event was stored so long before the newest one."""
    if salience is None:
        return 1.0
    patience_s = BEHIND_S * (1 + salience / 10)
    if behind_s < patience_s:
        return 1.0
    return max(2.0 ** -(1 + math.floor(math.log2(behind_s / patience_s))), LEAST_FACTOR)


class Thinner:
    """Chooses events by the shares of a micro-batch."""

    def __init__(self, thinning: ThinningOption, reading: Reading) -> None:
        self._decoder: TypedEvents | None = None
        if thinning.strata:
            assert reading.fields is not None
            fields = {name: reading.fields[name] for name in thinning.strata}
            self._decoder = TypedEvents(replace(reading, fields=fields, required=(), keeps_text=False))

    def shares(
        self, serials: Sequence[int], events: Sequence[bytes], told: Mapping[str, float]
    ) -> list[float]:
        """Return the share of each event's stratum, and 0 for events that are left out.

        An event that does not fit is read, so that it is rejected.
        """
        factor = told.get(ALL, 1.0)
        if self._decoder is None or not told.keys() - {ALL}:
            shares = [max(told.get("", 1.0) * factor, LEAST_SHARE)] * len(serials)
        else:
            known: dict[tuple[Any, ...], float] = {}
            strata = self._decoder.values(events)
            for values in set(strata):
                share = told.get(stratum_of([*map(_text, values)]), 1.0)
                known[values] = max(share * factor, LEAST_SHARE)
            shares = [known[values] for values in strata]
        return [
            share if is_read else 0.0
            for is_read, share in zip(sampled(serials, shares).tolist(), shares, strict=True)
        ]


def with_weights(batch: pa.RecordBatch, shares: Sequence[float] | None) -> pa.RecordBatch:
    """Return a batch with the weights of its events; all are 1 without shares."""
    weights = [1.0] * batch.num_rows if shares is None else [1 / share for share in shares]
    names = [*batch.schema.names, WEIGHT]
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(weights, pa.float64())], names=names)


def _text(value: Any) -> str:
    """Return a value as Spark casts it to text. A double may differ there: then its events are all read."""
    if value is None:
        return ""
    return f"={str(value).lower() if isinstance(value, bool) else value}"
