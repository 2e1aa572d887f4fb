"""The commands for broadcasts: where a payload comes from, and what people read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from towpath.cli import broadcasts
from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT
from towpath.contracts.broadcast import BroadcastState, BroadcastView, SendBroadcast, SiteBroadcast

AT = datetime(2026, 1, 1, tzinfo=UTC)
VIEW = BroadcastView(
    broadcast="b1",
    topic="lamps/all",
    payload_bytes=3,
    sent_at=AT,
    expires_at=AT,
    sites=[
        SiteBroadcast(site="jfk", state=BroadcastState.DELIVERED, at=AT, subscriptions=20),
        SiteBroadcast(site="lga"),
    ],
)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[SendBroadcast]:
    """Return the commands that a mesh gets. It answers all with `VIEW`."""
    asked: list[SendBroadcast] = []

    async def ask(home: Any, command: SendBroadcast, **options: Any) -> BroadcastView:
        asked.append(command)
        return VIEW

    monkeypatch.setattr(broadcasts, "ask", ask)
    return asked


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=stdin)


def test_payload_when_it_is_a_file_or_standard_input_then_its_bytes_are_sent(
    sent: list[SendBroadcast], tmp_path: Path
) -> None:
    (tmp_path / "plan.bin").write_bytes(b"\xff\x00")

    for payload, stdin in (("off", None), (f"@{tmp_path / 'plan.bin'}", None), ("-", b"piped\n")):
        assert run("broadcast", "lamps/all", payload, stdin=stdin).exit_code == 0

    assert [each.to_payload() for each in sent] == [b"off", b"\xff\x00", b"piped\n"]


def test_broadcast_when_sites_and_expiry_are_given_then_the_command_has_them(
    sent: list[SendBroadcast],
) -> None:
    run("broadcast", "lamps/all", "off", "--site", "jfk", "--site", "lga", "--expires", "1h")

    assert [(each.sites, each.expires_s) for each in sent] == [(["jfk", "lga"], 3600)]


def test_broadcast_when_a_site_waits_then_the_table_shows_each_and_how_to_look_again(
    sent: list[SendBroadcast],
) -> None:
    result = run("broadcast", "lamps/all", "off")

    assert "jfk   delivered" in result.stdout
    assert "lga   waiting" in result.stdout
    assert "delivered at 1" in result.stderr
    assert "towpath broadcasts b1" in result.stderr


def test_broadcast_when_json_is_asked_for_then_it_is_all_that_is_printed(sent: list[SendBroadcast]) -> None:
    result = run("broadcasts", "b1", "--json")

    assert BroadcastView.model_validate(json.loads(result.stdout)) == VIEW
    assert result.stderr == ""


def test_payload_when_its_file_is_missing_then_the_file_is_named_and_nothing_sent(
    sent: list[SendBroadcast], tmp_path: Path
) -> None:
    result = run("broadcast", "lamps/all", f"@{tmp_path / 'missing'}")

    assert (result.exit_code, result.stdout) == (BAD_INPUT, "")
    assert str(tmp_path / "missing") in result.stderr
    assert sent == []
