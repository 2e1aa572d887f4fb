"""Tables say everything about themselves, and read what earlier releases wrote."""

from __future__ import annotations

from typing import Any

import pytest
from operation_trial import OPERATIONS, operation

from towpath.contracts.commands import StrategyName
from towpath.contracts.migration import Held, StepCommand
from towpath.protocols import table
from towpath.protocols import tables as tables_of_protocol
from towpath.protocols.record import OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Hold
from towpath.protocols.strategies import general, handover, parallel
from towpath.protocols.table import register, strategies, table_of, tables


def test_strategies_when_compared_with_the_names_on_the_wire_then_are_the_same() -> None:
    assert {*strategies(), StrategyName.AUTO} == set(StrategyName)


@pytest.mark.parametrize("name", tables())
def test_table_when_registered_then_its_steps_have_names_of_their_own(name: str) -> None:
    steps = [step.name for step in tables()[name].steps]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("name", tables())
def test_table_when_registered_then_has_one_point_of_no_return_and_undoes_nothing_after_it(name: str) -> None:
    steps = tables()[name].steps
    (position,) = (number for number, step in enumerate(steps) if step.point_of_no_return)
    assert all(step.compensation is None for step in steps[position + 1 :])


@pytest.mark.parametrize("name", tables())
def test_table_when_registered_then_every_step_says_in_one_sentence_what_it_does(name: str) -> None:
    assert all(step.summary.endswith(".") for step in tables()[name].steps)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_when_looked_at_by_any_coordinator_then_follows_one_table(name: str) -> None:
    record = operation(name)
    assert table_of(record) is table_of(OperationRecord.model_validate_json(record.model_dump_json()))


def test_register_when_the_name_is_taken_then_is_refused() -> None:
    with pytest.raises(ValueError, match="general"):
        register(general.GENERAL)


def test_register_when_a_strategy_is_added_then_it_is_found_among_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(table.TABLES.registered, "other", general.GENERAL)
    assert "other" in strategies()


WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    ("general", "launch-retrieve", {"have": {"state/1": "9c1e"}}),
    ("general", "launch-retrieve", {}),
    (
        "general",
        "pause-transfer",
        {"serials": {"jfk/clean": 7}, "batch": 3, "last_processed_at": "2026-01-01T00:00:00Z"},
    ),
    ("restart", "pause-transfer", {"serials": {}, "batch": None, "last_processed_at": None, "digest": ""}),
    ("handover", "ship-checkpoint", {"serials": {"jfk/clean": 7}, "batch": 3, "digest": "9c1e"}),
    ("handover", "open-shadow", {"output_serial": 12}),
    ("handover", "await-consistency", {}),
    ("handover", "await-consistency", {"position": 3, "amended": [], "compared": 4, "said_later": True}),
    ("parallel", "note-progress", {"job": "a", "epoch": 1, "state": "running", "serials": {"jfk/clean": 7}}),
    ("update", "stop-job", {"serials": {"jfk/clean": 7}, "batch": 3, "last_processed_at": None}),
]
"""Operation, step, and its answer as some release wrote it."""


@pytest.mark.parametrize(("name", "step", "written"), WRITTEN)
def test_fact_when_another_release_wrote_it_then_is_read(
    name: str, step: str, written: dict[str, Any]
) -> None:
    record = operation(name).model_copy(update={"facts": {step: written}})
    fact = table_of(record).step(step).fact_in(record)
    told = fact.model_dump(mode="json")
    assert {field: told[field] for field in written if field in told} == {
        field: value for field, value in written.items() if field in told
    }


def test_fact_when_the_step_has_not_been_confirmed_then_there_is_none() -> None:
    assert general.observe.find(operation("general")) is None
    with pytest.raises(AssertionError, match="pause-transfer is not confirmed"):
        general.pause_transfer.fact_in(operation("general"))


@pytest.mark.parametrize("name", strategies())
def test_step_when_its_actor_answers_then_the_answer_is_its_fact(name: str) -> None:
    facts = {step: body for _, step, body in WRITTEN} | {"divert": {"output_serial": 12}}
    record = operation(name).model_copy(update={"facts": facts})
    for step in strategies()[name].steps:
        command = step.command(record)
        if step.actor is Actor.COORDINATOR:
            assert isinstance(command, Hold if step.fact is Held else RegistryChange)
        else:
            assert isinstance(command, StepCommand)
            assert command.answer is step.fact


@pytest.mark.parametrize(
    ("strategy", "interim", "empty", "monitored", "state"),
    [
        (general.GENERAL, False, False, False, True),
        (strategies()["restart"], False, True, False, False),
        (handover.HANDOVER, True, False, True, True),
        (parallel.PARALLEL, True, True, True, False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_strategy_when_asked_then_says_what_follows_from_it(
    strategy: table.Strategy, interim: bool, empty: bool, monitored: bool, state: bool
) -> None:
    assert strategy.interim_epoch is interim
    assert strategy.empty_beginning is empty
    assert strategy.monitored is monitored
    assert strategy.carries_state is state


def test_protocol_when_compared_with_the_strategies_then_shows_their_steps() -> None:
    document = tables_of_protocol.DOCUMENT.read_text()
    assert tables_of_protocol.written(document) == document, "run `make export`"


def test_protocol_when_a_part_is_missing_then_it_is_named() -> None:
    with pytest.raises(ValueError, match="<!-- generated: steps of general -->"):
        tables_of_protocol.written("")


def test_undoing_when_the_epoch_depends_on_what_has_begun_then_all_epochs_are_shown() -> None:
    text = tables_of_protocol.parts()["steps of general"]
    assert "`ResumeJob(e)` or `ResumeJob(e+2)` to the source **(must)**" in text
