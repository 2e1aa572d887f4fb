"""The checker finds and names every single fault that is planted in a correct run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from checker_runs import RUNS, SIZE_S, Message, Run, event_run

from towpath.checker.moments import microseconds, written

Plant = Callable[[Run], Run | None]
"""Changes a run, or makes another."""


def some(run: Run) -> int:
    """Any result of the first connection, neither the first nor one of the last."""
    return run.random.choice(run.first_copies()[2:-2])


def drop_one_result(run: Run) -> None:
    victim = run.messages[some(run)]
    run.messages = [m for m in run.messages if m.offset != victim.offset]


def drop_the_last_window(run: Run) -> None:
    last = max(m.body["window"]["start"] for m in run.messages)
    run.messages = [m for m in run.messages if m.body["window"]["start"] != last]


def drop_a_key(run: Run) -> None:
    run.messages = [m for m in run.messages if m.body["key"] != {"device": "beta"}]


def drop_a_batch_of_events(run: Run) -> None:
    del run.messages[100:110]


def never_publish_the_newest_of_a_key(run: Run) -> None:
    newest = max(e["id"] for e in run.events if e["device"] == "beta")
    run.messages = [m for m in run.messages if m.body["values"]["id"] != newest]


def deliver_again_on_the_same_connection(run: Run) -> None:
    at = some(run)
    run.messages.insert(at + 1, run.messages[at])


def publish_again_as_the_next_owner(run: Run) -> None:
    last = run.messages[-1]
    copy = replace(last, body=last.body | {"epoch": 3}, offset=None)
    run.messages.append(copy)


def publish_a_batch_twice(run: Run) -> None:
    run.messages[60:60] = [replace(m, offset=None) for m in run.messages[40:50]]


def deliver_again_what_was_acknowledged_long_ago(run: Run) -> Run:
    long = event_run(run.random.randrange(1_000), 1_600)
    first = [replace(m, connection=1) for m in long.messages]
    messages = [m for m in first if m.offset is not None]
    copy = replace(messages[3], connection=2)
    return replace(long, messages=[*_once(messages), copy])


def _once(messages: list[Message]) -> list[Message]:
    kept: dict[int | None, Message] = {}
    for message in messages:
        kept.setdefault(message.offset, message)
    return [*kept.values()]


def deliver_again_with_other_bytes(run: Run) -> None:
    at = run.first_copies()[-1]
    other = replace(run.messages[at], body=run.messages[at].body | {"site": "lga"}, connection=2)
    run.messages.append(other)


def publish_the_same_count_twice(run: Run) -> None:
    at = some(run)
    run.messages.insert(at + 1, replace(run.messages[at], body=run.messages[at].body | {"serial": 0}))


def swap_two_results_of_a_key(run: Run) -> None:
    first = run.first_copies()
    key = run.messages[first[1]].body.get("key") or run.messages[first[1]].body["values"]["device"]
    same = [
        at
        for at in first
        if key in (run.messages[at].body.get("key"), run.messages[at].body["values"].get("device"))
    ]
    a, b = same[2], same[3]
    one, other = run.messages[a], run.messages[b]
    # The results were mixed up before they were stored: places, times and epochs are right.
    run.messages[a] = replace(other, offset=one.offset, body=other.body | {"epoch": one.body["epoch"]})
    run.messages[b] = replace(one, offset=other.offset, body=one.body | {"epoch": other.body["epoch"]})


def publish_an_older_one_after_the_newest(run: Run) -> None:
    older = next(m for m in run.messages if m.body["values"]["device"] == "beta")
    run.messages.remove(older)
    run.messages.append(replace(older, offset=None, body=older.body | {"epoch": 2}))


def add_one_to_a_value(run: Run) -> None:
    at = some(run)
    values = run.messages[at].body["values"]
    name = next(name for name in ("sum", "delay") if name in values)
    run.change(at, values=values | {name: values[name] + 1})


def exchange_values_of_two_keys(run: Run) -> None:
    first = run.first_copies()
    a = first[1]
    b = next(at for at in first[2:] if run.messages[at].body["values"] != run.messages[a].body["values"])
    one, other = run.messages[a].body["values"], run.messages[b].body["values"]
    run.change(a, values=other)
    run.change(b, values=one)


def write_a_number_as_text(run: Run) -> None:
    at = some(run)
    run.change(at, values={"sum": str(run.messages[at].body["values"]["sum"])})


def leave_a_value_out(run: Run) -> None:
    run.change(some(run), values={})


def end_a_window_a_second_late(run: Run) -> None:
    at = some(run)
    window = run.messages[at].body["window"]
    run.change(at, window=window | {"end": _shifted(window["end"], 1)})


def begin_a_window_a_second_late(run: Run) -> None:
    at = some(run)
    window = run.messages[at].body["window"]
    run.change(at, window=window | {"start": _shifted(window["start"], 1)})


def count_the_first_event_of_the_next_window(run: Run) -> Run:
    return replace(run, terms=replace(run.terms, size_s=SIZE_S + 0.1))


def shift_all_windows_by_an_hour(run: Run) -> None:
    for at, message in enumerate(run.messages):
        window = message.body["window"]
        run.change(at, window={name: _shifted(moment, 3600) for name, moment in window.items()})


def _shifted(moment: str, seconds: int) -> str:
    at = microseconds(moment)
    assert at is not None
    return written(at + seconds * 1_000_000)


def change_the_case_of_a_key(run: Run) -> None:
    at = some(run)
    run.change(at, key={"device": run.messages[at].body["key"]["device"].upper()})


def forget_a_key(run: Run) -> None:
    run.change(some(run), key={})


def invent_a_result(run: Run) -> None:
    at = some(run)
    message = run.messages[at]
    run.messages.insert(at, replace(message, body=message.body | {"key": {"device": "?"}}, offset=None))


def fold_the_case_of_words(run: Run) -> None:
    run.messages = [m for m in run.messages if m.body["values"]["word"] != "Edge"]
    at = next(at for at, m in enumerate(run.messages) if m.body["values"]["word"] == "edge")
    number = " ".join(event["text"] for event in run.events).lower().split().count("edge")
    run.change(at, values={"word": "edge", "count": number})


def let_pass_what_is_just_not_above_the_limit(run: Run) -> Run:
    everything = event_run(1)
    everything.events[50]["delay"] = 30
    passed = [
        m for m in everything.messages if m.body["values"]["delay"] > 30 or m.body["values"]["id"] == 50
    ]
    return replace(everything, rule="filter", terms=run.terms, messages=passed)


def cut_a_message_short(run: Run) -> None:
    at = some(run)
    run.messages[at] = replace(run.messages[at], raw=b'{"job":"job","values":{"su')


def send_what_is_no_object(run: Run) -> None:
    run.messages[some(run)] = replace(run.messages[some(run)], raw=b"null")


def publish_under_an_epoch_that_is_over(run: Run) -> None:
    at = next(at for at in run.first_copies() if run.messages[at].body["epoch"] == 2) + 1
    run.change(at, epoch=1)


def publish_before_the_events_are_stored(run: Run) -> None:
    at = some(run)
    run.messages[at] = replace(run.messages[at], received_at=run.messages[at].received_at - 60)


def deliver_a_minute_late(run: Run) -> None:
    at = some(run)
    run.messages[at] = replace(run.messages[at], received_at=run.messages[at].received_at + 60)


def read_the_log_backwards(run: Run) -> None:
    at = some(run)
    run.messages[at] = replace(run.messages[at], offset=1)


def change_what_the_log_holds(run: Run) -> None:
    at = some(run)
    run.messages[at] = replace(run.messages[at], offset=run.messages[at - 1].offset)


def store_and_never_deliver(run: Run) -> None:
    run.stored = [replace(m, connection=1) for m in run.messages]
    victim = run.messages[some(run)]
    run.messages = [m for m in run.messages if m.offset != victim.offset]


def drop_a_field_on_the_way(run: Run) -> None:
    at = some(run)
    values = run.messages[at].body["values"]
    run.change(at, values={name: value for name, value in values.items() if name != "text"})


def add_a_field_on_the_way(run: Run) -> None:
    at = some(run)
    run.change(at, values=run.messages[at].body["values"] | {"copied": True})


def apply_the_time_zone_twice(run: Run) -> None:
    at = some(run)
    values = run.messages[at].body["values"]
    run.change(at, values=values | {"at": _shifted(values["at"], 7200)})


def cover_a_serial_number_twice(run: Run) -> None:
    through = run.messages[some(run)].body["through"]
    copies = [m for m in run.messages if m.body["after"] == through]
    for message in copies:
        run.messages[run.messages.index(message)] = replace(
            message, body=message.body | {"after": through - 1}
        )


def leave_a_range_out(run: Run) -> None:
    through = run.messages[some(run)].body["through"]
    run.messages = [m for m in run.messages if m.body["through"] != through]


def count_from_zero_after_the_handover(run: Run) -> None:
    change = next(at for at, m in enumerate(run.messages) if m.body["epoch"] == 2)
    counts: dict[str, int] = {}
    for at in range(change, len(run.messages)):
        device = run.messages[at].body["values"]["device"]
        counts[device] = counts.get(device, 0) + 1
        run.change(at, values={"device": device, "count": counts[device]})


PLANTED: list[tuple[Plant, str, str]] = [
    (drop_one_result, "window-sum", "lost"),
    (drop_the_last_window, "window-sum", "lost"),
    (drop_a_key, "window-sum", "lost"),
    (drop_a_batch_of_events, "pass-through", "lost"),
    (never_publish_the_newest_of_a_key, "latest-by-key", "lost"),
    (leave_a_range_out, "range-count", "lost"),
    (deliver_again_on_the_same_connection, "window-sum", "duplicated"),
    (publish_again_as_the_next_owner, "window-sum", "duplicated"),
    (publish_a_batch_twice, "pass-through", "duplicated"),
    (deliver_again_what_was_acknowledged_long_ago, "pass-through", "duplicated"),
    (deliver_again_with_other_bytes, "window-sum", "duplicated"),
    (publish_the_same_count_twice, "running-count", "duplicated"),
    (count_from_zero_after_the_handover, "running-count", "duplicated"),
    (cover_a_serial_number_twice, "range-count", "duplicated"),
    (swap_two_results_of_a_key, "window-sum", "out_of_order"),
    (swap_two_results_of_a_key, "pass-through", "out_of_order"),
    (publish_an_older_one_after_the_newest, "latest-by-key", "out_of_order"),
    (add_one_to_a_value, "window-sum", "wrong"),
    (add_one_to_a_value, "pass-through", "wrong"),
    (exchange_values_of_two_keys, "window-sum", "wrong"),
    (write_a_number_as_text, "window-sum", "wrong"),
    (leave_a_value_out, "window-sum", "wrong"),
    (end_a_window_a_second_late, "window-sum", "wrong"),
    (drop_a_field_on_the_way, "pass-through", "wrong"),
    (add_a_field_on_the_way, "pass-through", "wrong"),
    (apply_the_time_zone_twice, "pass-through", "wrong"),
    (begin_a_window_a_second_late, "window-sum", "unexpected"),
    (count_the_first_event_of_the_next_window, "window-sum", "unexpected"),
    (shift_all_windows_by_an_hour, "window-sum", "unexpected"),
    (change_the_case_of_a_key, "window-sum", "unexpected"),
    (forget_a_key, "window-sum", "unexpected"),
    (invent_a_result, "window-sum", "unexpected"),
    (fold_the_case_of_words, "word-count", "wrong"),
    (let_pass_what_is_just_not_above_the_limit, "filter", "unexpected"),
    (cut_a_message_short, "window-sum", "unexpected"),
    (send_what_is_no_object, "window-sum", "unexpected"),
    (publish_under_an_epoch_that_is_over, "window-sum", "stale_owner"),
    (publish_before_the_events_are_stored, "window-sum", "premature"),
    (deliver_a_minute_late, "window-sum", "late"),
    (read_the_log_backwards, "window-sum", "nonmonotonic"),
    (change_what_the_log_holds, "window-sum", "nonmonotonic"),
    (store_and_never_deliver, "window-sum", "unseen"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("plant", "rule", "word"),
    PLANTED,
    ids=[f"{plant.__name__}-{rule}-{word}" for plant, rule, word in PLANTED],
)
def test_fault_when_planted_in_a_history_then_is_found_under_its_name(
    plant: Plant, rule: str, word: str, seed: int
) -> None:
    run = RUNS[rule](seed)
    verdict = (plant(run) or run).verdict()
    assert verdict.found().get(word, 0) > 0, verdict
    assert verdict.examples[word]


ORTHOGONAL = {
    "lost": {
        "drop_one_result",
        "drop_the_last_window",
        "drop_a_key",
        "drop_a_batch_of_events",
        "leave_a_range_out",
    },
    "duplicated": {"deliver_again_on_the_same_connection", "deliver_again_what_was_acknowledged_long_ago"},
    "out_of_order": {"swap_two_results_of_a_key"},
    "wrong": {"add_one_to_a_value", "write_a_number_as_text", "end_a_window_a_second_late"},
    "unexpected": {"invent_a_result", "let_pass_what_is_just_not_above_the_limit"},
    "stale_owner": {"publish_under_an_epoch_that_is_over"},
    "premature": {"publish_before_the_events_are_stored"},
    "late": {"deliver_a_minute_late"},
    "nonmonotonic": {"read_the_log_backwards", "change_what_the_log_holds"},
    "unseen": {"store_and_never_deliver"},
}
"""Word → faults that are this and nothing else."""


@pytest.mark.parametrize(
    ("plant", "rule", "word"),
    [each for each in PLANTED if each[0].__name__ in ORTHOGONAL.get(each[2], ())],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_fault_when_it_is_one_thing_only_then_no_other_word_is_said(
    plant: Plant, rule: str, word: str
) -> None:
    run = RUNS[rule](7)
    verdict = (plant(run) or run).verdict()
    assert set(verdict.found()) == {word}, verdict


@pytest.mark.parametrize("rule", RUNS)
def test_run_when_it_went_well_then_nothing_is_found(rule: str) -> None:
    redelivered = 0
    for seed in range(100, 120):
        verdict = RUNS[rule](seed).verdict()
        assert verdict.found() == {}, (seed, verdict)
        assert verdict.expected > 0
        redelivered += verdict.redelivered
    assert redelivered > 0 or rule == "word-count"
