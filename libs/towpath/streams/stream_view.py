"""A stream as its server sees it. All answers of JetStream about streams are read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from towpath.contracts.data_plane import LIFE, PROMOTED_AFTER, api_for, epochs_of, life_code

if TYPE_CHECKING:  # Spark's Python workers parse views, and need no client for that.
    from nats.aio.client import Client

ASK_S = 5.0
"""Deadline of a question: a server that is there has the answer in memory."""

FED_WITHIN_NS = 3_000_000_000
"""An origin without new messages gives a sign of life every second."""

_NO_SUCH_STREAM = 10059


@dataclass(frozen=True)
class StreamView:
    """A stream at one moment."""

    name: str
    created: str
    """Time of its creation, as the server writes it."""
    subjects: tuple[str, ...]
    """Subjects it listens to."""
    first: int
    """Oldest serial number kept; `last` + 1 when it is empty."""
    last: int
    """Newest serial number."""
    size: int
    """Bytes kept."""
    lag: int = 0
    """Messages of its origin that a mirror does not have yet."""
    is_fed: bool = False
    """True for a mirror that has heard from its origin just now."""
    begins: int = 1
    """First serial number that a mirror asked its origin for."""
    fed_by: tuple[str, str] | None = None
    """Of a mirror: prefix of calls to its origin's server, and the stream there."""
    first_stored_at: str = ""
    """Time at which the oldest message was stored first, as its server writes it."""
    last_stored_at: str = ""
    """The same of the newest."""
    max_bytes: int = -1
    """Bytes that it may keep; -1 for no limit."""
    max_age_s: float = 0.0
    """Seconds that it keeps a message; 0 for no limit."""
    consumers: int = 0
    """Readers whose place the server keeps."""
    republishes_to: str = ""
    """Subject of the messages that it republishes."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The newest serial number; for a mirror that of its origin, as far as the server knows."""
        return self.last + self.lag

    @property
    def life(self) -> str:
        """The code that its message ids begin with."""
        return self.metadata.get(LIFE) or life_code(self.created)

    @property
    def promoted_after(self) -> int:
        """Of an output that was promoted, the last serial number of the copy then; else 0."""
        return int(self.metadata.get(PROMOTED_AFTER, "0"))

    @property
    def epochs(self) -> list[int]:
        """The epochs that it accepts, in ascending order."""
        return epochs_of(self.subjects)

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StreamView:
        """Make the view from a server's description of a stream."""
        config, state, mirror = info["config"], info["state"], info.get("mirror") or {}
        origin = config.get("mirror")
        last = state["last_seq"]
        return cls(
            name=config.get("name", ""),
            created=info.get("created", ""),
            subjects=tuple(config.get("subjects") or ()),
            first=state.get("first_seq", 0) if state.get("messages") else last + 1,
            last=last,
            size=state.get("bytes", 0),
            lag=mirror.get("lag", 0),
            is_fed=0 <= mirror.get("active", -1) < FED_WITHIN_NS,
            begins=(origin or {}).get("opt_start_seq") or 1,
            fed_by=origin and ((origin.get("external") or {}).get("api", ""), origin["name"]),
            first_stored_at=state.get("first_ts", ""),
            last_stored_at=state.get("last_ts", ""),
            max_bytes=config.get("max_bytes", -1),
            max_age_s=config.get("max_age", 0) / 1e9,
            consumers=state.get("consumer_count", 0),
            republishes_to=(config.get("republish") or {}).get("dest", ""),
            metadata=config.get("metadata") or {},
        )


def parse_view(answer: bytes) -> StreamView | None:
    """Return the view in the answer to `STREAM.INFO`; None if there is no such stream.

    Raises `TimeoutError` when the server cannot tell yet: ask again.
    """
    body: dict[str, Any] = json.loads(answer)
    error = body.get("error")
    if error is None:
        return StreamView.of(body)
    if error.get("err_code") == _NO_SUCH_STREAM:
        return None
    raise TimeoutError(f"the server cannot tell: {error.get('description')}")


async def stream_view(
    connection: Client, site: str, stream: str, *, timeout_s: float = ASK_S
) -> StreamView | None:
    """Return the view of a site's stream, from anywhere in the mesh; None if there is no such stream.

    Raises `TimeoutError` when the site does not answer.
    """
    subject = call_at(connection, site, f"STREAM.INFO.{stream}")
    return parse_view(await _asked(connection, subject, b"", timeout_s))


async def stream_views(connection: Client, site: str, *, timeout_s: float = ASK_S) -> list[StreamView]:
    """Return the views of all streams of a site. Raises `TimeoutError` when the site does not answer."""
    views: list[StreamView] = []
    while True:
        request = json.dumps({"offset": len(views)}).encode()
        answer = await _asked(connection, call_at(connection, site, "STREAM.LIST"), request, timeout_s)
        try:
            body: dict[str, Any] = json.loads(answer)
            if "error" in body:
                raise TimeoutError(f"the server of {site} cannot tell: {body['error'].get('description')}")
            listed = [StreamView.of(info) for info in body.get("streams") or []]
            is_last = len(views) + len(listed) >= body.get("total", 0)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TimeoutError(f"no server of {site} answers so: {error!r}") from error
        known = {view.name for view in views}
        views += listed
        if is_last or known.issuperset(view.name for view in listed):
            return views


def call_at(connection: Client, site: str, call: str) -> str:
    """Return the subject of a call to a site's JetStream, as this connection reaches it."""
    return f"{api_for(connection.options.get('user'), site)}.{call}"


async def _asked(connection: Client, subject: str, request: bytes, timeout_s: float) -> bytes:
    """Ask a server about its streams. Raises `TimeoutError` when it does not answer."""
    import nats.errors  # Here, and not in each of Spark's Python workers.

    try:
        return (await connection.request(subject, request, timeout=timeout_s)).data
    except (nats.errors.Error, OSError) as error:
        raise TimeoutError(f"no answer to {subject}") from error
