"""Read back the ids that an output stream holds already, so that a restart repeats nothing.

A stream forgets message ids after its duplicate window (minutes). A micro-batch that was published, but not
committed, and is repeated an hour later, would then appear twice. So before a query's first micro-batch, the
ids of that micro-batch are read back from the end of the output stream itself.
"""

from __future__ import annotations

from nats.aio.client import Client

from towpath.contracts.data_plane import (
    OVERLAP,
    overlap_range,
    shadow_stream,
)
from towpath.streams.ownership import is_behind
from towpath.streams.pages import PAGE_DEADLINE_S, order_of, overlap, pages_before, reaches_before
from towpath.streams.stream_view import stream_view


async def published_since(
    connection: Client,
    *,
    site: str,
    stream: str,
    job: str,
    epoch: int,
    generation: int,
    batch: int,
) -> set[str]:
    """Return the ids of the messages that micro-batch `batch` of `generation`, or a later one, has stored.

    There are none for an `epoch` of `job` whose results go to a shadow: those must be complete, to be
    compared. The stream is read backwards, page by page, until an earlier micro-batch appears. Labels of
    another run say nothing about ours, because both count on from their common checkpoint: the messages of
    such a run are read as a whole. Raises `TimeoutError` when the site does not answer.
    """
    output = await stream_view(connection, site, stream, timeout_s=PAGE_DEADLINE_S)
    if output is None:
        return set()
    if is_behind(output, epoch):
        shadow = await stream_view(connection, site, shadow_stream(job), timeout_s=PAGE_DEADLINE_S)
        if shadow is not None and epoch in shadow.epochs:
            return set()
    mark = output.metadata.get(OVERLAP, "")
    found = await overlap(connection, site, stream, mark)
    after, through = overlap_range(mark)
    for behind, newest in ((through, output.last), (0, min(after, output.last))):
        async for messages in pages_before(connection, site, stream, newest, after=behind):
            found |= {each.identity for each in messages if order_of(each) >= (generation, batch)}
            if reaches_before(messages, (generation, batch)):
                return found
    return found
