"""Terms of coordinators: a receiver obeys the latest coordinator it has heard of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.bus import Bus
from towpath.bus.terms import TERM_HEADER, Terms, later_term, of_term
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.reply import Done, Reply
from towpath.contracts.site_commands import DropOutput


async def test_command_when_a_later_coordinator_has_commanded_then_is_refused() -> None:
    terms = Terms()
    await terms.check(of_term(7))

    with pytest.raises(TowpathError) as refused:
        await terms.check(of_term(6))

    assert refused.value.detail.code is ErrorCode.FENCED
    assert later_term(refused.value) == 7
    await terms.check(of_term(7))


async def test_command_when_no_coordinator_sends_it_then_is_obeyed() -> None:
    terms = Terms()
    await terms.check(of_term(7))

    await terms.check(None)
    await terms.check({TERM_HEADER: "-1"})
    await terms.check({TERM_HEADER: "9" * 5000})


async def test_term_when_the_receiver_restarts_then_is_remembered(tmp_path: Path) -> None:
    await Terms(tmp_path / "term").check(of_term(7))

    with pytest.raises(TowpathError, match="later coordinator"):
        await Terms(tmp_path / "term").check(of_term(6))


@pytest.mark.parametrize("allowed", ["9" * 5000, "9" * 18, "seven", None])
def test_later_term_when_a_receiver_answers_nonsense_then_there_is_none(allowed: str | None) -> None:
    error = TowpathError(ErrorCode.FENCED, "forged", field="term", value=1, allowed=allowed)
    assert later_term(error) is None
    assert later_term(TowpathError(ErrorCode.FENCED, "an epoch", field="epoch", value=1, allowed="2")) is None


DROP = DropOutput.model_validate({**DropOutput.example, "site": "jfk"})


class Site:
    """A connection to a site that obeys a term, and the terms that it was asked in."""

    def __init__(self, known: int) -> None:
        self.options: dict[str, Any] = {}
        self.terms = Terms()
        self.known = known
        self.asked: list[str] = []

    async def request(self, subject: str, body: bytes, *, headers: dict[str, str], **_: Any) -> Any:
        await self.terms.check(of_term(self.known))
        self.asked.append(headers[TERM_HEADER])
        try:
            await self.terms.check(headers)
            reply = Reply[Any](ok=True, result=Done())
        except TowpathError as error:
            reply = Reply[Any](ok=False, error=error.detail)
        return SimpleNamespace(subject="_INBOX.x", data=reply.model_dump_json().encode())


async def test_command_when_the_site_knows_a_later_term_then_is_sent_again_above_it() -> None:
    site = Site(known=7)
    bus: Any = Bus(site)  # type: ignore[arg-type]  # Only `request` is asked for.
    bus.term = 1  # The registry was lost with its log.

    async def overtake(later: int) -> None:
        bus.term = later + 1

    bus.on_later_term = overtake
    assert await bus.request(DROP, deadline_s=60) == Done()
    assert site.asked == ["1", "8"]


async def test_command_when_another_coordinator_leads_then_is_refused_where_no_one_may_overtake() -> None:
    site = Site(known=7)
    bus: Any = Bus(site)  # type: ignore[arg-type]
    bus.term = 6

    with pytest.raises(TowpathError) as refused:
        await bus.request(DROP, deadline_s=60)

    assert later_term(refused.value) == 7
    assert site.asked == ["6"]
