"""What an output stream holds already: so that a restart after the duplicate window repeats nothing.

A stream forgets message ids after its duplicate window (minutes). A micro-batch that was published,
not committed, and is repeated an hour later would then appear twice. So before a query's first
micro-batch, the ids of that micro-batch are read back from the end of the output stream itself.
"""

from __future__ import annotations

from nats.aio.client import Client

from towpath.mesh.names import epochs_of
from towpath.streams.pages import PAGE, PAGE_DEADLINE_S, last_serial, overlap, page
from towpath.streams.publisher import BATCH_HEADER, stream_config


def batch_label(generation: int, batch: int) -> str:
    """How a micro-batch is called in the header of what it publishes."""
    return f"{generation}.{batch}"


def _is_earlier(label: str, generation: int, batch: int) -> bool:
    left = tuple(int(part) for part in label.split("."))
    return left < (generation, batch)


async def published_since(
    connection: Client, *, site: str, stream: str, generation: int, batch: int, epoch: int | None = None
) -> set[str]:
    """Ids of the messages that micro-batch `batch` of `generation`, or a later one, has stored.

    None of them for an `epoch` that the stream has yet to come to: what its owner publishes goes aside,
    complete, to be compared. Reads the stream backwards in pages until it meets an earlier micro-batch.
    Raises `TimeoutError` when the site does not answer.
    """
    config = await stream_config(connection, site, stream, timeout_s=PAGE_DEADLINE_S)
    if config is None:
        raise TimeoutError(f"{stream} at {site} does not answer")
    if epoch is not None and max(epochs_of(config.get("subjects", [])), default=epoch) < epoch:
        return set()
    last = await last_serial(connection, site, stream)
    # Labels of the owner before say nothing about ours: what it stored last is read as a whole.
    found = await overlap(connection, site, stream, config.get("metadata"))
    while last > 0:
        first = max(1, last - PAGE + 1)
        messages = await page(connection, site, stream, first, last - first + 1)
        labels = [(m.headers.get(BATCH_HEADER, "0.0"), m.identity) for m in messages if m.serial <= last]
        found |= {identity for label, identity in labels if not _is_earlier(label, generation, batch)}
        if not labels or _is_earlier(labels[0][0], generation, batch):
            break
        last = first - 1
    return found
