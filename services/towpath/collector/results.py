"""Read the newest results of a job from its output stream, at any site."""

from __future__ import annotations

import json
from typing import Any

from towpath.bus import Bus
from towpath.contracts.commands import ListJobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.live import MAX_RESULT_BYTES, KeptResult, ReadResults, ResultList
from towpath.streams.pages import StoredMessage, last_serial, page

JOBS_S = 3.0
"""Deadline for the coordinator to name the site of a job's results."""


class Results:
    """Serves `ReadResults`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def read(self, command: ReadResults) -> ResultList:
        """Return the newest results. Raises `TowpathError`: no such job, or the site does not answer."""
        jobs = await self._bus.request(ListJobs(), deadline_s=JOBS_S)
        output = jobs.named(command.job).output
        connection = self._bus.connection
        try:
            last = await last_serial(connection, output.site, output.stream)
            first = max(1, last - command.limit + 1)
            stored = await page(connection, output.site, output.stream, first, command.limit) if last else []
        except TimeoutError as error:
            raise TowpathError(ErrorCode.SITE_DOWN, f"site {output.site} does not answer") from error
        results = [shown(message) for message in reversed(stored)]
        return ResultList(job=command.job, site=output.site, stream=output.stream, last=last, results=results)


def shown(message: StoredMessage) -> KeptResult:
    """Return a stored result, with its content if that is small and a JSON object."""
    size = len(message.body)
    return KeptResult(serial=message.serial, bytes=size, body=_object(message.body))


def _object(body: bytes) -> dict[str, Any] | None:
    if len(body) > MAX_RESULT_BYTES:
        return None
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
