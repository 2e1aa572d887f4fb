"""Terms of coordinators: a receiver obeys the latest coordinator it has heard of."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.bus.terms import TERM_HEADER, Terms, later_term, of_term
from towpath.contracts.errors import ErrorCode, TowpathError


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


@pytest.mark.parametrize("allowed", ["9" * 5000, "seven", None])
def test_later_term_when_a_receiver_answers_nonsense_then_there_is_none(allowed: str | None) -> None:
    error = TowpathError(ErrorCode.FENCED, "forged", field="term", value=1, allowed=allowed)
    assert later_term(error) is None
    assert later_term(TowpathError(ErrorCode.FENCED, "an epoch", field="epoch", value=1, allowed="2")) is None
