"""The load on a processor is the share that was asked for, on a machine that is simulated."""

from __future__ import annotations

import pytest

from towpath.lab.faults.load import cpu

TICK_S = 0.001


class Over(Exception):
    """The simulated time has passed."""


class Machine:
    """Its processor gives the program a part of its time: `given` of it, until `for_s`, then all."""

    def __init__(self, given: float = 1.0, for_s: float = 0.0, until_s: float = 20.0) -> None:
        self.given, self.for_s, self.until_s = given, for_s, until_s
        self.now_s = self.used_s = 0.0
        self.used_by_then_s = 0.0
        """Processor time at `for_s`."""

    def monotonic(self) -> float:
        if self.now_s >= self.until_s:
            raise Over
        return self.now_s

    def process_time(self) -> float:
        """A program asks this while it computes: time passes."""
        self.used_s += TICK_S
        self._pass(TICK_S / self.given if self.now_s < self.for_s else TICK_S)
        return self.used_s

    def sleep(self, seconds: float) -> None:
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s <= self.for_s:
            self.used_by_then_s = self.used_s


def simulated(monkeypatch: pytest.MonkeyPatch, machine: Machine, percent: float) -> None:
    monkeypatch.setattr(cpu, "time", machine)
    with pytest.raises(Over):
        cpu.main(percent)


@pytest.mark.parametrize("percent", [20, 60, 100])
def test_load_when_no_one_else_computes_then_is_the_share_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, percent: float
) -> None:
    machine = Machine()

    simulated(monkeypatch, machine, percent)

    assert machine.used_s / machine.now_s == pytest.approx(percent / 100, abs=0.02)


def test_load_when_others_leave_it_less_then_takes_all_it_gets_and_makes_up_for_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(given=0.25, for_s=10)

    simulated(monkeypatch, machine, 60)

    assert machine.used_by_then_s == pytest.approx(0.25 * 10, abs=0.1)
    later_s = machine.used_s - machine.used_by_then_s
    assert later_s == pytest.approx(0.6 * 10 + cpu.LONGEST_ARREAR_S, abs=0.1)
