"""Answers to queries as the checker knows them: identified by query, moment and key, compared by value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from towpath.checker.columns import CodedColumn, Table
from towpath.checker.expectation import Expectation
from towpath.checker.history import observed
from towpath.checker.identity import RESULT, Identity, WindowIdentity, named, utc
from towpath.checker.judging import judge_history
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Leniency, Verdict
from towpath.queries.reference import Answer

TOLERANCE = 1e-7
"""Relative. Sums of panes are rounded in another order than sums of events."""

MICROS_PER_MS = 1_000
"""A published answer tells its moment in whole milliseconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def answer_identity(body: Mapping[str, Any]) -> Identity:
    """Identify a published answer by its query, its moment and its key."""
    key = {**body["key"]}
    query, end = key.pop("query"), utc(body["window"]["end"])
    return WindowIdentity(query, end, end, named(key))


def query_of(observation: ReceivedMessage) -> str:
    """Return the query that an answer is of; an empty text for a message that is no answer."""
    return observation.identity.job if isinstance(observation.identity, WindowIdentity) else ""


def moment_of(observation: ReceivedMessage) -> datetime:
    """Return the moment of an answer; the earliest there is for a message that is no answer."""
    return observation.identity.end if isinstance(observation.identity, WindowIdentity) else EPOCH


def judge_answers(
    expected: Sequence[Answer], seen: Sequence[ReceivedMessage], *, estimated: bool = False
) -> Verdict:
    """Compare the answers of one query with the expected ones. `estimated`: their values may differ.

    A moment of an event may have several answers of one key. Then so many must come, in their order. Of
    different moments the order does not count: answers of one micro-batch come in any.
    """
    identities = [expected_identity(answer) for answer in expected]
    values = Table()
    for answer in expected:
        values.append({} if estimated else {"value": plain(answer.value)}, {})
    expectation = Expectation(
        len(expected),
        {RESULT: CodedColumn.of(identities)},
        values.columns,
        complete=True,
    )

    def compared(body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {} if estimated else {"value": plain(body["values"]["value"])}

    return judge_history(expectation, observed(seen, compared), Leniency(tolerance=TOLERANCE))


def expected_identity(answer: Answer) -> Identity:
    """Identify an expected answer as `answer_identity` does a published one."""
    end = EPOCH + timedelta(milliseconds=answer.moment // MICROS_PER_MS)
    return WindowIdentity(answer.query, end, end, named(dict(answer.key)))


_NAMED = ("time", "value", "count", "neighbours")


def plain(value: Any) -> Any:
    """Return an answer in one form: numbers as they are, and lists as text.

    A published outlier may say more of itself than the reference.
    """
    if not isinstance(value, list):
        return float(value)
    told = [{name: _number(each[name]) for name in _NAMED if name in each} for each in value]
    return json.dumps(told, sort_keys=True)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
