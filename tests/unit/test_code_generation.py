"""Code is generated for queries whose micro-batches are large."""

from __future__ import annotations

from towpath.engine.code_generation import INTERPRETED, LARGE_EVENTS, CodeGeneration


class Session:
    """The part of Spark's session that holds settings. It counts how often one is set."""

    def __init__(self) -> None:
        self.settings = dict(INTERPRETED)
        self.times_set = 0

    def conf(self) -> Session:
        """Return its settings."""
        return self

    def set(self, name: str, value: str) -> None:
        """Set one."""
        self.settings[name] = value
        self.times_set += 1

    @property
    def interprets(self) -> bool:
        """Return true if no code is generated."""
        return self.settings == INTERPRETED


def test_plan_when_one_micro_batch_is_large_then_is_interpreted() -> None:
    session, code = Session(), CodeGeneration()

    for events in (LARGE_EVENTS, 0, LARGE_EVENTS, LARGE_EVENTS - 1, LARGE_EVENTS):
        code.take_in(events, session)

    assert session.times_set == 0


def test_plan_when_two_micro_batches_in_a_row_are_large_then_is_compiled_until_one_is_small() -> None:
    session, code = Session(), CodeGeneration()

    interprets = []
    for events in (LARGE_EVENTS, LARGE_EVENTS, LARGE_EVENTS, LARGE_EVENTS - 1):
        code.take_in(events, session)
        interprets.append(session.interprets)

    assert interprets == [True, False, False, True]
    assert session.times_set == 2 * len(INTERPRETED)
