"""Publishers of tests over connections that the test has."""

from __future__ import annotations

from itertools import count

from nats.aio.client import Client

from running.waiting import eventually
from towpath.contracts.data_plane import (
    BATCH_HEADER,
    MESSAGE_ID_HEADER,
    rejected_stream,
)
from towpath.contracts.job import ResolvedOutput
from towpath.streams.publisher import Connect


def always(connection: Client) -> Connect:
    """Return what a `Publisher` connects with: this connection, each time."""

    async def connect() -> Client:
        return connection

    return connect


async def forget_ids(connection: Client, output: ResolvedOutput) -> None:
    """Let the server forget all ids that it has of a job's output by now, as it does after two minutes.

    It stores a probe, as the newest owner. The server checks the ids when the window changes. Sometimes it
    keeps the time that it had set before, up to two minutes later. Then the window is changed once more.
    """
    jetstream = connection.jetstream()
    probe = {MESSAGE_ID_HEADER: "probe", BATCH_HEADER: "1.6"}
    for stream in (output.stream, rejected_stream(output.stream)):
        accepted = (await jetstream.stream_info(stream)).config.subjects or []

        async def is_stored_again(subject: str = accepted[-1]) -> bool:
            return not (await jetstream.publish(subject, b'{"n": 99}', headers=probe)).duplicate

        for window_s in count(0.1, 0.01):
            config = (await jetstream.stream_info(stream)).config
            await jetstream.update_stream(config, duplicate_window=window_s)
            await is_stored_again()
            try:
                await eventually(is_stored_again, 10 * window_s)
                break
            except AssertionError:
                continue
