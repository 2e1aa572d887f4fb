"""Rules at code points: what is wrapped, what its caller sees, and what is there afterwards."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from running.fault_trial import Bench, loaded, read_reports
from running.waiting import WITHIN_S
from towpath.contracts.faults import Moment
from towpath.hooks.points import InjectedFault
from towpath.lab.faults.active import ActiveRule
from towpath.lab.faults.weaving import Weaver

MODULE = """
import asyncio

def double(n, times=2):
    return n * times

def fail(text):
    raise ValueError(text)

async def later(n):
    await asyncio.sleep(0)
    return n

async def fail_later():
    raise KeyError("later")

def count(n):
    yield from range(n)

class Base:
    def inherited(self):
        return "base"

class Thing(Base):
    def __init__(self, name):
        self.name = name

    def greet(self, other):
        return f"{self.name} greets {other}"

    @property
    def greeted(self):
        return self.greet(self.name)

    async def greet_later(self):
        return self.name

    @staticmethod
    def static(n):
        return n

    @classmethod
    def made(cls, name):
        return cls(name)
"""

OTHER = "from woven_here import double\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module, and another that has imported a function of it by name."""
    (tmp_path / "woven_here.py").write_text(MODULE)
    (tmp_path / "woven_other.py").write_text(OTHER)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("woven_here")
    for name in ("woven_here", "woven_other"):
        sys.modules.pop(name, None)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def weaver() -> Iterator[Weaver]:
    weaver = Weaver()
    yield weaver
    weaver.weave({})


def rule(bench: Bench, action: dict[str, Any], condition: str = "true", **more: Any) -> ActiveRule:
    return bench.active(loaded({"code": "any:code"}, action, condition=condition, **more))


def weave(weaver: Weaver, code: str, *rules: ActiveRule, at: Moment = Moment.ENTRY) -> None:
    assert weaver.weave({f"woven_here:{code}": {at: rules}}) == {}


def returning(bench: Bench, value: Any, condition: str = "true") -> ActiveRule:
    return rule(bench, {"fault": "return_value", "value": value}, condition)


def test_function_when_answered_at_entry_then_is_not_called_and_others_are_left_alone(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "fail", returning(bench, 7, 'args.text == "this"'))
    assert here.fail("this") == 7
    with pytest.raises(ValueError, match="that"):
        here.fail("that")


def test_arguments_when_given_or_not_then_conditions_know_them_by_name(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "double", returning(bench, "hit", "args.n == 3 and args.times == 2"))
    assert [here.double(3), here.double(n=3), here.double(3, 2), here.double(3, 3)] == ["hit"] * 3 + [9]


def test_result_when_replaced_at_exit_then_the_condition_has_seen_it(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "double", returning(bench, 0, "result > 10 and took_s < 60"), at=Moment.EXIT)
    assert [here.double(5), here.double(6)] == [10, 0]


def test_exception_when_looked_at_then_can_be_told_apart_swallowed_or_exchanged(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    swallowing = returning(bench, None, 'error.type == "ValueError" and error.message == "a"')
    exchanging = rule(
        bench, {"fault": "throw", "error": "OSError", "message": "other"}, 'error.message == "b"'
    )
    weave(weaver, "fail", swallowing, exchanging, at=Moment.EXCEPTION)

    assert here.fail("a") is None
    with pytest.raises(OSError, match="other"):
        here.fail("b")
    with pytest.raises(ValueError, match="c"):
        here.fail("c")


@pytest.mark.parametrize("call", ["Thing('a').greet('b')", "Thing.greet(Thing('a'), 'b')"])
def test_method_when_woven_then_self_is_an_argument(
    here: Any, bench: Bench, weaver: Weaver, call: str
) -> None:
    weave(weaver, "Thing.greet", returning(bench, "hit", 'args.self.name == "a" and args.other == "b"'))
    assert eval(call, vars(here)) == "hit"
    assert here.Thing("c").greet("d") == "c greets d"


def test_static_and_class_methods_when_woven_then_are_called_as_before(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    codes = {
        "woven_here:Thing.static": {Moment.EXIT: (returning(bench, "hit", "args.n == 1"),)},
        "woven_here:Thing.made": {Moment.EXIT: (returning(bench, "hit", 'args.name == "x"'),)},
    }
    assert weaver.weave(codes) == {}
    assert (here.Thing.static(1), here.Thing("x").static(2)) == ("hit", 2)
    assert (here.Thing.made("x"), here.Thing.made("y").name) == ("hit", "y")


async def test_coroutine_when_woven_then_stays_one_and_lets_others_go_on(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    slow = rule(bench, {"fault": "delay", "ms": 600_000})
    weave(weaver, "later", slow)
    assert asyncio.iscoroutinefunction(here.later)

    held = asyncio.create_task(here.later(5))
    while not slow.acted:
        await asyncio.sleep(0)
    slow.end()
    assert await asyncio.wait_for(held, WITHIN_S) == 5


async def test_coroutine_when_it_fails_then_its_exception_is_looked_at(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "fail_later", returning(bench, "saved"), at=Moment.EXCEPTION)
    assert await here.fail_later() == "saved"


async def test_async_method_when_woven_then_its_result_is_what_it_returns(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "Thing.greet_later", returning(bench, "hit", 'result == "a"'), at=Moment.EXIT)
    assert (await here.Thing("a").greet_later(), await here.Thing("b").greet_later()) == ("hit", "b")


def test_generator_when_woven_then_entry_is_its_call(here: Any, bench: Bench, weaver: Weaver) -> None:
    weave(weaver, "count", rule(bench, {"fault": "throw"}, "args.n == 2"))
    assert list(here.count(3)) == [0, 1, 2]
    with pytest.raises(InjectedFault):
        here.count(2)


def test_throw_when_the_process_ends_with_it_then_its_count_was_told_before(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "double", rule(bench, {"fault": "throw"}))
    with pytest.raises(InjectedFault):
        here.double(1)

    (report,) = read_reports(bench.directory / "reports.jsonl")
    assert report.count is not None
    assert (report.count.looked, report.count.acted) == (1, 1)


def test_throw_when_the_same_rule_measures_then_the_measurement_was_told_before_as_well(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    measure = {"fault": "emit", "metric": "products", "value": "args.n"}
    weave(weaver, "double", bench.active(loaded({"code": "any:code"}, measure, {"fault": "throw"})))
    with pytest.raises(InjectedFault):
        here.double(3)

    found = read_reports(bench.directory / "reports.jsonl")
    assert [report.metric.value for report in found if report.metric] == [3.0]
    assert [report.count.acted for report in found if report.count] == [1]


def test_rules_when_several_on_one_function_then_act_one_after_the_other(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    wait = rule(bench, {"fault": "delay", "ms": 30}, "every 2")
    fail = rule(bench, {"fault": "throw", "message": "third"}, "every 3")
    add = rule(bench, {"fault": "return_value", "value": -1}, "result == 8")
    rules = {Moment.ENTRY: (wait, fail), Moment.EXIT: (add,)}
    assert weaver.weave({"woven_here:double": rules}) == {}

    begun = time.monotonic()
    assert [here.double(n) for n in (1, 4)] == [2, -1]
    assert time.monotonic() - begun >= 0.03
    with pytest.raises(InjectedFault, match="third"):
        here.double(1)
    assert (wait.looked, fail.looked, add.looked) == (3, 3, 2)


def test_function_when_imported_by_name_elsewhere_then_is_woven_there_as_well(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    other = importlib.import_module("woven_other")
    weave(weaver, "double", returning(bench, "hit"))
    assert other.double(1) == "hit"
    weaver.weave({})
    assert other.double is here.double


def test_module_when_imported_after_its_rule_then_is_woven_before_anybody_calls_it(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    del sys.modules["woven_here"]
    weave(weaver, "double", returning(bench, "hit"))
    assert importlib.import_module("woven_here").double(1) == "hit"
    assert here.double(1) == 2


def test_module_when_imported_anew_then_the_new_one_is_woven(here: Any, bench: Bench, weaver: Weaver) -> None:
    hit = returning(bench, "hit")
    weave(weaver, "double", hit)
    before = vars(here)["double"]
    del sys.modules["woven_here"]
    weave(weaver, "double", hit)

    assert importlib.import_module("woven_here").double(1) == "hit"
    assert vars(here)["double"] is not before
    assert here.double(1) == 2


@pytest.mark.parametrize(
    "code",
    ["double", "later", "Thing.greet", "Thing.static", "Thing.made", "Thing.__init__"],
)
def test_function_when_its_rule_is_gone_then_is_the_very_same_object(
    here: Any, bench: Bench, weaver: Weaver, code: str
) -> None:
    *owner, name = code.split(".")
    holder = getattr(here, owner[0]) if owner else here
    before = vars(holder)[name]
    weave(weaver, code, returning(bench, None))
    assert vars(holder)[name] is not before

    weaver.weave({})
    assert vars(holder)[name] is before


def test_function_when_somebody_else_has_replaced_it_meanwhile_then_theirs_stays(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "double", returning(bench, "hit"))
    here.double = theirs = lambda n: "theirs"
    weaver.weave({})
    assert here.double is theirs


def test_function_when_pickled_while_woven_then_is_unpickled_by_name(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    weave(weaver, "double", returning(bench, "hit"))
    sent = pickle.dumps([here.double, here.Thing("a").greet])
    weaver.weave({})
    double, greet = pickle.loads(sent)
    assert double is here.double
    assert greet("b") == "a greets b"


def test_rule_when_its_expression_calls_what_it_looks_at_then_that_is_no_further_call(
    here: Any, bench: Bench, weaver: Weaver
) -> None:
    looking = returning(bench, "hit", 'args.self.greeted == "a greets a"')
    weave(weaver, "Thing.greet", looking)
    assert here.Thing("a").greet("b") == "hit"
    assert looking.looked == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("missing", "has no missing"),
        ("Thing.missing", "has no Thing.missing"),
        ("Thing", "not a function"),
        ("OTHER", "has no OTHER"),
    ],
)
def test_code_when_there_is_no_such_function_then_says_so_and_changes_nothing(
    here: Any, bench: Bench, weaver: Weaver, code: str, told: str
) -> None:
    before = dict(vars(here))
    (failure,) = weaver.weave({f"woven_here:{code}": {Moment.ENTRY: (returning(bench, 1),)}}).values()
    assert told in str(failure)
    assert vars(here) == before


def test_code_when_of_a_builtin_type_then_cannot_be_woven(bench: Bench, weaver: Weaver) -> None:
    failures = weaver.weave({"builtins:str.upper": {Moment.ENTRY: (returning(bench, "x"),)}})
    assert list(failures) == ["builtins:str.upper"]
    assert "a".upper() == "A"


def test_metric_when_emitted_at_exit_then_measures_the_call(here: Any, bench: Bench, weaver: Weaver) -> None:
    measuring = rule(
        bench,
        {"fault": "emit", "metric": "product_events", "value": "result", "labels": {"n": "{args.n}"}},
    )
    weave(weaver, "double", measuring, at=Moment.EXIT)
    assert here.double(4) == 8
    (report,) = bench.reported()
    assert report.metric is not None
    assert (report.metric.value, report.metric.labels) == (8.0, {"n": "4"})
