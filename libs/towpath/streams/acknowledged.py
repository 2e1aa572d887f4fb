"""Publish with acknowledgements: many messages are under way at a time, and their stream answers each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from towpath.bus.quick_client import UNLIMITED
from towpath.contracts.data_plane import NO_RESPONDERS


class Acknowledgement(NamedTuple):
    """The outcome of one message."""

    turn: int
    number: int
    """Both as the sender chose them."""
    is_stored: bool
    is_repeated: bool = False
    """It was stored before: the stream knows its id."""
    is_unheard: bool = False
    """No stream listens to its subject."""
    stream: str = ""
    """The stream that has it."""
    trouble: str = ""
    """The reason why it is not stored."""


class AcknowledgedSender:
    """Sends messages over one connection and passes on the answers."""

    def __init__(self, connection: Client, heard: Callable[[Acknowledgement], None]) -> None:
        """`heard` is called with each answer, in the order in which they come."""
        self.connection = connection
        self._heard = heard
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None

    async def open(self) -> None:
        """Listen to answers."""
        self._subscription = await self.connection.subscribe(
            f"{self._inbox}.*.*",
            cb=self._on_answer,
            pending_msgs_limit=UNLIMITED,
            pending_bytes_limit=UNLIMITED,
        )

    async def close(self) -> None:
        """Listen no longer."""
        if self._subscription is not None and not self.connection.is_closed:
            await self._subscription.unsubscribe()

    async def send(
        self, subject: str, body: bytes, headers: dict[str, str], *, number: int, turn: int = 0
    ) -> None:
        """Send one message; they are stored in the order of these calls while the connection holds."""
        reply = f"{self._inbox}.{turn}.{number}"
        await self.connection.publish(subject, body, reply=reply, headers=headers)

    async def _on_answer(self, message: Msg) -> None:
        _, turn, number = message.subject.rsplit(".", 2)
        self._heard(_read(int(turn), int(number), message))


def _read(turn: int, number: int, message: Msg) -> Acknowledgement:
    if (message.headers or {}).get("Status") == NO_RESPONDERS:
        trouble = "no stream takes this subject"
        return Acknowledgement(turn, number, is_stored=False, is_unheard=True, trouble=trouble)
    answer = orjson.loads(message.data)
    if "error" in answer:
        trouble = answer["error"].get("description", "refused")
        return Acknowledgement(turn, number, is_stored=False, trouble=trouble)
    stream, is_repeated = answer.get("stream", ""), answer.get("duplicate", False)
    return Acknowledgement(turn, number, is_stored=True, is_repeated=is_repeated, stream=stream)
