"""How results came: which copies a broker had to bring again, and where that may have mixed up the order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from towpath.checker.history import History, longs


@dataclass(frozen=True)
class Arrival:
    """Of each result of a history."""

    redelivered: np.ndarray
    """Whether it is a copy that MQTT allows: see `judge`."""
    unsettled: np.ndarray
    """Whether it came so soon after its subscriber had connected again that it may be an older message,
    which the broker brought late."""


def arrival_of(history: History, span: int) -> Arrival:
    """How the results came; a broker brings at most the last `span` messages again."""
    subscribers = history.subscribers.array()
    table = pd.DataFrame(
        {
            "subscriber": subscribers,
            "connection": longs(history.connections),
            "payload": longs(history.payloads),
        }
    )
    of_subscriber = table.groupby("subscriber", sort=False)
    place = of_subscriber.cumcount()
    changed = table["connection"] != of_subscriber["connection"].shift(1)
    began = place.where(changed).groupby(subscribers).ffill().astype("int64")
    before = place.groupby([table["subscriber"], table["payload"]]).shift(1)
    since = began - before
    marked = np.frombuffer(bytes(history.dups), bool)
    redelivered = ((since > 0) & (since <= span)) | (before.notna() & marked)
    unsettled = (began > 0) & (place - began < span)
    return Arrival(redelivered.to_numpy(bool), unsettled.to_numpy(bool))
