"""The wiring of the door: an encrypted connection of a site becomes a plain one to Redis, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import StreamReader, StreamWriter

from towpath.mesh.tls_files import server_context
from towpath.redis_door.settings import DoorSettings

log = logging.getLogger(__name__)

PIECE_BYTES = 256 * 1024
"""Bytes that are passed on at a time: a quarter of a chunk of state."""


async def run(settings: DoorSettings, stop: asyncio.Event) -> None:
    """Pass connections on until `stop` is set. Raises `OSError` when the port is taken.

    Only clients with a certificate of the mesh's authority get through.
    """

    async def accepted(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await _pass_on(reader, writer, *settings.redis)
        except OSError as error:
            log.warning("Redis is not reached: %s", error)
        finally:
            writer.close()

    tls = server_context(settings.tls, asks_clients=True)
    server = await asyncio.start_server(accepted, settings.listen, settings.port, ssl=tls, limit=PIECE_BYTES)
    async with server:
        log.info("listening on %s:%d", settings.listen, settings.port)
        await stop.wait()


async def _pass_on(reader: StreamReader, writer: StreamWriter, host: str, port: int) -> None:
    """Copy in both directions until one end closes."""
    redis_reader, redis_writer = await asyncio.open_connection(host, port, limit=PIECE_BYTES)
    copies = [
        asyncio.create_task(_copy(reader, redis_writer)),
        asyncio.create_task(_copy(redis_reader, writer)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        redis_writer.close()


async def _copy(source: StreamReader, target: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(PIECE_BYTES):
            target.write(piece)
            await target.drain()
