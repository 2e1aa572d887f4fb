"""Ids of the messages that an output stored while a shadow was open: its server may have forgotten them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from nats.aio.client import Client

from towpath.contracts.data_plane import label_order
from towpath.streams import pages

DIGEST_BYTES = 16


class StoredIds:
    """A set of ids that grows as it reads on. It keeps digests of ids only: a million takes 80 MB."""

    def __init__(self, connection: Client, site: str, after: Mapping[str, int]) -> None:
        """`after`: the streams to read, each with the serial number after which reading begins."""
        self._connection = connection
        self._site = site
        self._after = dict(after)
        self._digests: set[bytes] = set()

    def __contains__(self, identity: str) -> bool:
        return _digest(identity) in self._digests

    async def read(self, connection: Client | None = None) -> None:
        """Add messages stored since the last time, over the connection there is now, if it has changed.

        Raises `TimeoutError` if the site does not answer.
        """
        self._connection = connection or self._connection
        for stream, after in self._after.items():
            async for messages in pages.pages_after(self._connection, self._site, stream, after):
                self._add(messages)
                self._after[stream] = messages[-1].serial

    async def read_back(self, stream: str, last: int, label: str) -> None:
        """Add the messages that micro-batch `label`, or a later one, stored up to serial `last`.

        A run that goes on from a checkpoint repeats messages that were published and not yet committed.
        Raises `TimeoutError` when the site does not answer.
        """
        order = label_order(label)
        async for messages in pages.pages_before(self._connection, self._site, stream, last):
            self._add(message for message in messages if pages.order_of(message) >= order)
            if pages.reaches_before(messages, order):
                return

    async def read_overlap(self, stream: str, mark: str) -> None:
        """Add the messages that a stream's mark spans, see `data_plane.OVERLAP`.

        Raises `TimeoutError` when the site does not answer.
        """
        found = await pages.overlap(self._connection, self._site, stream, mark)
        self._digests.update(_digest(identity) for identity in found)

    def _add(self, messages: Iterable[pages.StoredMessage]) -> None:
        self._digests.update(_digest(message.identity) for message in messages)


def _digest(identity: str) -> bytes:
    return hashlib.blake2b(identity.encode(), digest_size=DIGEST_BYTES).digest()
