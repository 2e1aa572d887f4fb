"""The gateway's log under kills, torn writes and a full budget; and topics that are parsed back."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.gateways import control
from towpath.gateways.control import Address
from towpath.gateways.refusal import Refusal
from towpath.gateways.result_log import ResultLog
from towpath.number_set import NumberSet

_step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("deliver"), st.integers(1, 6)),
    st.tuples(st.just("deliver newest"), st.integers(1, 3)),
    st.tuples(st.just("save"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("tear"), st.integers(1, 40)),
)


@settings(deadline=None)
@given(steps=st.lists(_step, max_size=40), budget=st.sampled_from([400, 2000, 10**6]))
def test_log_when_killed_and_torn_then_loses_nothing_uncounted_and_never_reuses_a_number(
    steps: list[tuple[str, int]], budget: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = _World(Path(directory), budget)
        for step, count in steps:
            world.take(step, count)
        world.check()


class _World:
    """A log, and what a receiver must know of it."""

    def __init__(self, directory: Path, budget: int) -> None:
        self.directory, self.budget = directory, budget
        self.log = ResultLog(directory, budget_bytes=budget)
        self.identity = self.log.identity
        self.appended: dict[int, bytes] = {}
        self.sent: dict[int, bytes] = {}
        self.count = 0

    def take(self, step: str, count: int) -> None:
        if step == "append":
            self.append(count)
        elif step.startswith("deliver"):
            after = max(0, self.log.last - count) if step.endswith("newest") else 0
            self.log.sync()
            for number, payload in self.log.read(after, count):
                assert self.sent.setdefault(number, payload) == payload
                self.log.delivered(number)
        elif step == "save":
            self.log.save()
        else:
            self.reopen(tear=count)

    def append(self, count: int) -> None:
        payloads = [b"result-%d" % (self.count + n) for n in range(count)]
        self.count += count
        first = self.log.last + 1
        self.log.append(payloads)
        assert first > max(self.sent, default=0)
        self.appended |= dict(enumerate(payloads, first))

    def reopen(self, tear: int) -> None:
        """Kill the gateway. With `tear`, the power goes too: bytes are missing that were never sent."""
        newest = max(self.directory.glob("*.log"))
        safe = self.log.last if not tear else max(self.sent, default=0)
        if tear and self.log.last > safe and self.log._dirty:
            size = newest.stat().st_size
            with newest.open("ab") as file:
                file.truncate(max(0, size - min(tear, 15)))  # Less than a frame: one result at most.
            self.appended.pop(self.log.last, None)
        self.log = ResultLog(self.directory, budget_bytes=self.budget)

    def check(self) -> None:
        self.take("deliver", 10**6)
        self.log.close()
        log = ResultLog(self.directory, budget_bytes=self.budget)
        assert (log.waiting(), log.identity) == (0, self.identity)
        for number, payload in self.sent.items():
            assert self.appended[number] == payload
        assert len(self.appended) - len(self.sent) == log.dropped
        assert log.bytes <= max(self.budget, 200)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9))), st.integers(1, 70), st.integers(0, 70))
def test_number_set_when_ranges_are_added_then_is_the_set_of_their_numbers(
    ranges: list[tuple[int, int]], first: int, length: int
) -> None:
    numbers = NumberSet((a, a + more) for a, more in ranges)
    expected = {n for a, more in ranges for n in range(a, a + more + 1)}
    assert {n for n in range(100) if n in numbers} == expected
    missing = {n for a, b in numbers.missing(first, first + length) for n in range(a, b + 1)}
    assert missing == set(range(first, first + length + 1)) - expected
    assert numbers.covers(first, first + length) == (not missing)
    assert [*numbers] == [*NumberSet(numbers)]


_name = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")


@given(
    _name,
    _name,
    st.sampled_from(["CONF-V1", "DEPLOY-V2"]),
    st.sampled_from(["GET", "PUT"]),
    st.lists(_name, min_size=1),
)
def test_topic_when_parsed_then_is_the_address_again(
    account: str, device: str, application: str, verb: str, levels: list[str]
) -> None:
    address = Address(account, device, application, verb, "/".join(levels))
    assert control.parse_address(address.topic) == address


@given(st.text(), st.binary())
def test_request_when_it_is_any_text_then_is_read_or_refused(topic: str, payload: bytes) -> None:
    with contextlib.suppress(Refusal):
        assert control.parse_address(topic).topic == topic
    with contextlib.suppress(Refusal):
        request = control.decode_request(Address("a", "d", "CONF-V1", "PUT", "configurations"), payload)
        assert request.request_id
