"""Terms of coordinators: a site obeys the latest coordinator it has heard of, and none before it.

The registry's log numbers the terms. A coordinator that was paused, or cut off, may not know yet that another
one leads. Its commands bear the number of its own term, so sites can tell.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from towpath.atomic_write import write_atomically
from towpath.contracts.errors import ErrorCode, TowpathError

TERM_HEADER = "Towpath-Term"
"""Number of the term of the coordinator that sends a command. Others, such as people, send none."""

FIELD = "term"

_NUMBER = re.compile(r"[0-9]{1,18}")
_ANSWERED = re.compile(r"[0-9]{1,15}")
"""A stolen site may answer anything. The term above its answer must be one that all sites read."""


def of_term(term: int | None) -> dict[str, str]:
    """Return the header of a command that is sent in a term."""
    return {} if term is None else {TERM_HEADER: str(term)}


class Terms:
    """The latest term that a receiver of commands has heard of."""

    def __init__(self, file: Path | None = None) -> None:
        """With a file, it is remembered through restarts."""
        self._file = file
        self._latest = int(file.read_text()) if file is not None and file.exists() else 0
        self._writing = asyncio.Lock()

    async def check(self, headers: Mapping[str, str] | None) -> None:
        """Raise `TowpathError` (fenced) if a command comes from a coordinator of an earlier term.

        A later term is on the disk before its first command is obeyed.
        """
        text = (headers or {}).get(TERM_HEADER, "")
        if not _NUMBER.fullmatch(text):
            return
        term = int(text)
        if term > self._latest:
            async with self._writing:
                await self._remember(term)
        if term < self._latest:
            raise TowpathError(
                ErrorCode.FENCED,
                "a later coordinator leads",
                field=FIELD,
                value=term,
                allowed=str(self._latest),
            )

    async def _remember(self, term: int) -> None:
        if term <= self._latest:
            return
        if self._file is not None:
            await asyncio.to_thread(write_atomically, self._file, str(term))
        self._latest = term


def later_term(error: TowpathError) -> int | None:
    """Return the term that a receiver asks for which refused an earlier one; None for any other refusal."""
    detail = error.detail
    if detail.code is not ErrorCode.FENCED or detail.field != FIELD:
        return None
    text = str(detail.allowed)
    return int(text) if _ANSWERED.fullmatch(text) else None
