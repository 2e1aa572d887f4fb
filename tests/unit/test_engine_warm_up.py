"""An engine looks at the source again and again, so that Spark does not end the process that does it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from running.waiting import eventually
from towpath.engine import warm_up
from towpath.streams.source import FORMAT


class Session:
    """A double of Spark's session: it notes which format was loaded, and fails where a test asks for it."""

    def __init__(self, failures: int = 0) -> None:
        self.loaded: list[str] = []
        self.failures = failures
        self.looks = 0

    @property
    def readStream(self) -> Session:
        return self

    def format(self, name: str) -> Session:
        self.loaded.append(name)
        return self

    def options(self, **_: str) -> Session:
        return self

    def load(self) -> Any:
        self.looks += 1
        if self.looks <= self.failures:
            raise OSError("Python worker failed to connect back")
        return self


async def looked(session: Session, times: int) -> None:
    """Keep warm until the session was looked at so often."""
    keeping = asyncio.create_task(warm_up.keep_warm(cast("SparkSession", session)))
    try:
        await eventually(lambda: session.looks >= times)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_source_when_time_passes_then_it_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "KEEP_WARM_S", 0.001)
    session = Session()
    await looked(session, 3)
    assert set(session.loaded) == {FORMAT}


async def test_source_when_a_look_fails_then_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "KEEP_WARM_S", 0.001)
    await looked(Session(failures=2), 4)


def test_source_when_kept_warm_then_looks_come_before_spark_would_end_the_process() -> None:
    assert warm_up.KEEP_WARM_S < 60.0
