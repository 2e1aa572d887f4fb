"""Figures of the site's streams, with one request to its server for all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from nats.aio.client import Client

from towpath.contracts.data_plane import IN_STREAM, OUTPUT_STREAM_PREFIX, api_prefix
from towpath.contracts.errors import ErrorCode, TowpathError

LIST_S = 2.0
"""Deadline for one answer. The server has it in memory."""


@dataclass(frozen=True)
class StreamState:
    """A stream as its server reports it."""

    last: int
    """Newest serial number. Of a mirror, it is that of its origin as far as the mirror knows."""
    size: int
    """Bytes stored."""


async def stream_states(connection: Client, site: str) -> dict[str, StreamState]:
    """Return all streams at a site, by name.

    Raises `TowpathError` (failed) when the server refuses, and `nats.errors.Error` when it does not answer.
    """
    states: dict[str, StreamState] = {}
    while True:
        request = json.dumps({"offset": len(states)}).encode()
        answer = await connection.request(f"{api_prefix(site)}.STREAM.LIST", request, timeout=LIST_S)
        body: dict[str, Any] = json.loads(answer.data)
        if "error" in body:
            raise TowpathError(
                ErrorCode.FAILED, body["error"].get("description", "the server refused to list streams")
            )
        listed = {info["config"]["name"]: _state(info) for info in body.get("streams") or []}
        states |= listed
        if not listed or len(states) >= body.get("total", 0):
            return states


def _state(info: dict[str, Any]) -> StreamState:
    lag = (info.get("mirror") or {}).get("lag", 0)
    return StreamState(info["state"]["last_seq"] + lag, info["state"]["bytes"])


class StreamFigures:
    """Values of the streams that a site keeps: IN and outputs."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}
        """Stream → time of its newest serial number, and that number."""

    def values(self, states: dict[str, StreamState]) -> dict[str, dict[str, float]]:
        """Return stream → values by metric. Rates are among them from the second call on."""
        kept = {
            n: state for n, state in states.items() if n == IN_STREAM or n.startswith(OUTPUT_STREAM_PREFIX)
        }
        now, before = monotonic(), self._before
        self._before = {name: (now, state.last) for name, state in kept.items()}
        values: dict[str, dict[str, float]] = {}
        for name, state in kept.items():
            values[name] = {"stream.events": float(state.last), "stream.size": float(state.size)}
            if name in before and now > before[name][0]:
                at, last = before[name]
                # A stream that was created again counts from the beginning.
                grown = state.last - last if state.last >= last else state.last
                values[name]["stream.event_rate"] = grown / (now - at)
        return values
