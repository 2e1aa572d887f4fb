"""Topics that the IN stream can hold, ids of what a bridge stored, and what it remembers of its session."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from towpath.brokers.overlap import Seen
from towpath.brokers.session_file import BridgeRecord, SessionFile
from towpath.brokers.site_log import Identity
from towpath.brokers.topics import RefusedTopics, storable_subject


@pytest.mark.parametrize(
    ("topic", "subject"),
    [
        ("site/a", "site.a"),
        ("site/hall 7", None),
        ("site/gate/3/speed", "site.gate.3.speed"),
        ("site/längs/$x", "site.längs.$x"),
        ("site/a.b", None),
        ("site/a//b", None),
        ("site/a/", None),
        ("site/", None),
        ("site", None),
        ("/site/a", None),
        ("other/a", None),
        ("sitely/a", None),
        ("site/*", None),
        ("site/>", None),
        ("site/a\tb", None),
        ("site/a\n", None),
        ("site/" + "x" * 1000, None),
    ],
)
def test_topic_when_in_can_hold_it_then_has_a_subject(topic: str, subject: str | None) -> None:
    assert storable_subject(topic) == subject


def test_refused_topic_when_it_comes_often_then_is_counted_each_time_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = RefusedTopics()
    with caplog.at_level(logging.WARNING):
        for topic in ("a/b", "a/b", "c"):
            refused.add(topic, "no")
    assert refused.count == 3
    assert len(caplog.records) == 2


def test_identity_when_written_then_reads_as_before() -> None:
    identity = Identity("0a1b", 7, Seen(65_535, "ff00"))
    assert Identity.parse(str(identity)) == identity
    assert Identity.parse("departures.hourly.12") is None
    assert Identity.parse("") is None


def test_session_when_renewed_then_has_another_name_and_the_old_beginning(tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "broker" / "bridge.json")
    first = file.load()
    assert file.load() == first
    second = file.renew(["site/#"])
    assert (second.session != first.session, second.since) == (True, first.since)
    assert SessionFile(tmp_path / "broker" / "bridge.json").load() == second


def test_session_when_file_is_torn_then_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "bridge.json"
    path.write_text('{"session": ')
    assert isinstance(SessionFile(path).load(), BridgeRecord)
