"""Logs of a process. Every line names its site, job, operation and trace as far as they are known.

Logs are text by default. With TOWPATH_LOG=json they are one JSON object per line, for programs.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

from towpath.telemetry.tracing import current_ids

FORMAT_VARIABLE = "TOWPATH_LOG"
"""`json` for JSON lines. Any other value means text."""

CONTEXT = ("site", "job", "operation", "trace")
"""Fields that a line may name, in their order in text."""

_about: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))


@contextmanager
def about(**what: str | None) -> Iterator[None]:
    """Add `job`, `operation` or `site` to the lines logged inside. None keeps what was known."""
    known = {name: value for name, value in what.items() if value is not None}
    token = _about.set({**_about.get(), **known})
    try:
        yield
    finally:
        _about.reset(token)


def start_logging(site: str | None = None, *, level: int = logging.INFO) -> None:
    """Log to standard error, in the form the environment asks for. `site` is where the process runs."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(site) if os.environ.get(FORMAT_VARIABLE) == "json" else _TextFormatter(site))
    logging.basicConfig(level=level, handlers=[handler])


def log_context(site: str | None) -> dict[str, str]:
    """Return the known fields of the work under way, in the order of `CONTEXT`."""
    known = {**({"site": site} if site else {}), **_about.get()}
    if (ids := current_ids()) is not None:
        known["trace"] = ids[0]
    return {name: known[name] for name in CONTEXT if name in known}


class _TextFormatter(logging.Formatter):
    """One line for people, with its fields last, in brackets."""

    def __init__(self, site: str | None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._site = site

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without a traceback."""
        context = " ".join(f"{name}={value}" for name, value in log_context(self._site).items())
        return super().formatMessage(record) + (f" [{context}]" if context else "")


class _Json(logging.Formatter):
    """One JSON object per line, with any traceback inside it."""

    def __init__(self, site: str | None) -> None:
        super().__init__()
        self._site = site

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, str] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **log_context(self._site),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
