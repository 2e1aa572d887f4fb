"""What an output stream holds already: so that a restart after the duplicate window repeats nothing.

A stream forgets message ids after its duplicate window (minutes). A micro-batch that was published,
not committed, and is repeated an hour later would then appear twice. So before a query's first
micro-batch, the ids of that micro-batch are read back from the end of the output stream itself.
"""

from __future__ import annotations

import asyncio
import json

from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath.mesh.names import MESSAGE_ID_HEADER, api_prefix
from towpath.streams.publisher import BATCH_HEADER

PAGE = 2000
"""Messages per look back: most micro-batches publish fewer, so one page is enough."""

PAGE_DEADLINE_S = 15.0


def batch_label(generation: int, batch: int) -> str:
    """How a micro-batch is called in the header of what it publishes."""
    return f"{generation}.{batch}"


def _is_earlier(label: str, generation: int, batch: int) -> bool:
    left = tuple(int(part) for part in label.split("."))
    return left < (generation, batch)


async def published_since(
    connection: Client, *, site: str, stream: str, generation: int, batch: int
) -> set[str]:
    """Ids of the messages that micro-batch `batch` of `generation`, or a later one, has stored.

    Reads the stream backwards in pages until it meets an earlier micro-batch. Raises `TimeoutError`
    when the site does not answer.
    """
    last = await _last_serial(connection, site, stream)
    found: set[str] = set()
    while last > 0:
        first = max(1, last - PAGE + 1)
        page = await _page(connection, site, stream, first, last - first + 1)
        labels = [(h.get(BATCH_HEADER, "0.0"), h.get(MESSAGE_ID_HEADER, "")) for h in page]
        found |= {identity for label, identity in labels if not _is_earlier(label, generation, batch)}
        if not page or _is_earlier(labels[0][0], generation, batch):
            break
        last = first - 1
    return found


async def _last_serial(connection: Client, site: str, stream: str) -> int:
    answer = await connection.request(
        f"{api_prefix(site)}.STREAM.INFO.{stream}", b"", timeout=PAGE_DEADLINE_S
    )
    state = json.loads(answer.data).get("state", {})
    return state.get("last_seq", 0) if state.get("messages", 0) else 0


async def _page(connection: Client, site: str, stream: str, first: int, count: int) -> list[dict[str, str]]:
    """Headers of up to `count` messages from serial `first` (JetStream's batched direct get)."""
    headers: list[dict[str, str]] = []
    complete = asyncio.Event()

    async def on_message(message: Msg) -> None:
        fields = dict(message.headers or {})
        if "Status" in fields:
            complete.set()
        elif int(fields["Nats-Sequence"]) < first + count:
            headers.append(fields)

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=on_message)
    try:
        request = json.dumps({"seq": first, "batch": count, "max_bytes": 64 * 1024**2}).encode()
        await connection.publish(f"{api_prefix(site)}.DIRECT.GET.{stream}", request, reply=inbox)
        await asyncio.wait_for(complete.wait(), PAGE_DEADLINE_S)
    finally:
        await subscription.unsubscribe()
    return headers
