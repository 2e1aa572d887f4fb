"""Answers in the terminal: the newest of each query and key, and estimates with their interval."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.cli import query_answers as answers_module
from towpath.cli.query_answers import Newest, follow_answers, shown
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.streams.follower import StreamGoneError


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"value": 7.25}, "7.25"),
        ({"value": 1234567}, "1234567"),
        ({"value": True}, "true"),
        ({"value": [{"value": "AA", "count": 3}]}, '[{"value":"AA","count":3}]'),
        ({"value": 7.25, "low": 6.8375, "high": 7.6625, "confidence": 0.9}, "7.25 ± 0.41 (90 %)"),
        ({"value": 5e4, "low": 4.8766e4, "high": 5.1234e4, "confidence": 0.9999}, "50,000 ± 1,200 (99.99 %)"),
        ({"value": 7.25, "low": 7.25, "high": 7.25, "confidence": 0.95}, "7.25 ± 0 (95 %)"),
        ({"value": 2.0, "low": 1.5, "high": 4.0, "confidence": 0.95}, "2, 1.5 to 4 (95 %)"),
        ({"value": 7.25, "low": 6.8375, "high": 7.6625}, "7.25 ± 0.41"),
        ({"value": 7.25, "sampled": 0.5}, "7.25"),
    ],
)
def test_answer_when_shown_then_has_its_interval_if_it_is_an_estimate(
    values: dict[str, Any], text: str
) -> None:
    assert shown(values) == text


def test_newest_when_keys_have_fields_of_several_names_then_answers_are_in_the_order_of_queries() -> None:
    newest = Newest()
    for query, key in [
        ("late", {"airport": "jfk"}),
        ("mean", {"carrier": "AA"}),
        ("late", {"tail": "N1"}),
        ("mean", {"airport": "jfk"}),
    ]:
        newest.see({"key": {"query": query, **key}, "window": {"end": "t"}, "values": {"value": 1.0}})

    queries, keys, *_ = newest.table().columns

    assert [*queries.cells] == ["late", "late", "mean", "mean"]
    assert [*keys.cells] == ["airport=jfk", "tail=N1", "airport=jfk", "carrier=AA"]


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that lets the stream of answers fail in a way."""

    @asynccontextmanager
    async def open_bus(_: Home) -> AsyncIterator[Any]:
        yield SimpleNamespace(connection=None)

    def failing(error: Exception, *, has_begun: bool, after_s: float = 0.0) -> None:
        async def read() -> None:
            raise error

        follower = SimpleNamespace(read=read, has_begun=has_begun, site="jfk")
        monkeypatch.setattr(answers_module, "Follower", lambda *_, **__: follower)
        monkeypatch.setattr(answers_module, "ABSENT_S", after_s)

    monkeypatch.setattr(answers_module, "open_bus", open_bus)
    return failing


@pytest.mark.parametrize(
    ("error", "has_begun", "absent_s", "code"),
    [
        (TimeoutError(), True, 0.0, ErrorCode.SITE_DOWN),
        (StreamGoneError(), False, 0.0, ErrorCode.UNKNOWN_TOPIC),
        (StreamGoneError(), True, 1e6, ErrorCode.UNKNOWN_TOPIC),
    ],
    ids=["site does not answer", "no stream comes", "stream was deleted"],
)
async def test_following_when_there_are_no_answers_to_read_then_ends_and_says_why(
    stream: Callable[..., None], error: Exception, has_begun: bool, absent_s: float, code: ErrorCode
) -> None:
    stream(error, has_begun=has_begun, after_s=absent_s)

    with pytest.raises(TowpathError) as refused:
        await follow_answers(Home(Path("nowhere")), "jfk", "q", after=0)

    assert refused.value.detail.code == code


async def test_following_when_the_site_is_out_of_reach_at_first_then_says_so(
    stream: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def last_serial(*_: Any) -> int:
        raise TimeoutError

    stream(TimeoutError(), has_begun=False)
    monkeypatch.setattr(answers_module, "last_serial", last_serial)

    with pytest.raises(TowpathError) as refused:
        await follow_answers(Home(Path("nowhere")), "jfk", "q")

    assert refused.value.detail.code == ErrorCode.SITE_DOWN
