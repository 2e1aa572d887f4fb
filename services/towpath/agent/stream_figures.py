"""Figures of the site's streams, with one request to its server for all of them."""

from __future__ import annotations

from time import monotonic

from nats.aio.client import Client

from towpath.contracts.data_plane import IN_STREAM, OUTPUT_STREAM_PREFIX
from towpath.streams.stream_view import StreamView, stream_views

LIST_S = 2.0
"""Deadline for one answer. The server has it in memory."""


async def streams_at(connection: Client, site: str) -> dict[str, StreamView]:
    """Return all streams at a site, by name. Raises `TimeoutError` when its server does not answer."""
    return {view.name: view for view in await stream_views(connection, site, timeout_s=LIST_S)}


class StreamFigures:
    """Values of the streams that a site keeps: IN and outputs."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}
        """Stream → time of its newest serial number, and that number."""

    def values(self, states: dict[str, StreamView]) -> dict[str, dict[str, float]]:
        """Return stream → values by metric. Rates are among them from the second call on."""
        kept = {
            name: state
            for name, state in states.items()
            if state.fed_by is None and (name == IN_STREAM or name.startswith(OUTPUT_STREAM_PREFIX))
        }
        now, before = monotonic(), self._before
        self._before = {name: (now, state.newest) for name, state in kept.items()}
        values: dict[str, dict[str, float]] = {}
        for name, state in kept.items():
            values[name] = {"stream.events": float(state.newest), "stream.size": float(state.size)}
            if name in before and now > before[name][0]:
                at, last = before[name]
                # A stream that was created again counts from the beginning.
                grown = state.newest - last if state.newest >= last else state.newest
                values[name]["stream.event_rate"] = grown / (now - at)
        return values
