"""Write the tables of `contracts/PROTOCOL.md` from the strategies: `python -m towpath.protocols.tables`.

`--check` only tells if they differ. A generated part stands between two comments, which name it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from towpath.contracts.commands import OperationKind
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.message import Model, now
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Held, StepCommand
from towpath.contracts.reply import Done
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Hold, Step
from towpath.protocols.table import Strategy, strategies, table_of, tables

DOCUMENT = Path(__file__).parents[3] / "contracts" / "PROTOCOL.md"

OLD_EPOCH = 1000
"""`e` in the sample operation that the tables show."""

TELLING = (
    "role", "epoch", "beside", "epochs", "interim", "resumes", "settlement", "keep_job", "have",
    "transfer_state", "digest", "after_serials", "watch",
)  # fmt: skip
"""Fields of a command that a table shows, in this order."""

BY_VALUE = frozenset({"role", "keep_job", "transfer_state"})
"""Those of these fields whose values a table shows."""

WHO = {
    Actor.SOURCE: "source",
    Actor.TARGET: "target",
    Actor.OUTPUT: "output site",
    Actor.MONITOR: "monitor",
    Actor.COORDINATOR: "coordinator",
}

NOTHING = "—"


def parts() -> dict[str, str]:
    """Return the generated parts of the document by name."""
    made = {f"steps of {name}": _steps(strategy) for name, strategy in strategies().items()}
    made |= {f"sequence of {name}": _sequence(strategy) for name, strategy in strategies().items()}
    return made | {"strategies": _strategies(), "other operations": _operations()}


def written(document: str) -> str:
    """Return the document with all its parts as they are now. Raises `ValueError` when a part is missing."""
    for name, text in parts().items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        if begin not in document or end not in document:
            raise ValueError(
                f"{DOCUMENT.name} has no part {name!r}: write {begin} and {end} where it belongs"
            )
        part = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        document = part.sub(lambda _, whole=f"{begin}\n{text}\n{end}": whole, document)
    return document


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _steps(strategy: Strategy) -> str:
    head = ("#", "step", "actor", "command", "confirmed by", "deadline", "undone by")
    rows: list[tuple[str, ...]] = []
    for number, (step, record) in enumerate(_walk(strategy), 1):
        rows.append(
            (
                str(number),
                step.name,
                WHO[step.actor],
                _asked(step.command, record),
                _confirmed(step),
                _deadline(step, record),
                _undone(step, record),
            )
        )
        if step.point_of_no_return:
            rows.append(("", "", "", "*point of no return*", "", "", ""))
    return _table(head, rows)


def _confirmed(step: Step[Any]) -> str:
    if step.fact is Held:
        return "`FinishMigration`, or time"
    return "the write itself" if step.actor is Actor.COORDINATOR else f"`{step.fact.__name__}`"


def _deadline(step: Step[Any], record: OperationRecord) -> str:
    if step.actor is Actor.COORDINATOR:
        return NOTHING
    if step.endless:
        return "until it succeeds"
    text = f"{step.within_s(record):g} s" + (", or more" if callable(step.deadline_s) else "")
    return f"{text}, again with each `busy`" if step.busy_s else text


def _undone(step: Step[Any], record: OperationRecord) -> str:
    undo = step.compensation
    if undo is None:
        return f"{NOTHING} (optional)" if step.optional else NOTHING
    moments = list(_moments(step, record))
    owed = [moment for moment in moments if undo.owed(moment)]
    commands = dict.fromkeys(_asked(undo.command, moment) for moment in owed)
    must = " **(must)**" if undo.must else ""
    condition = f", {undo.owed_if}" if len(owed) < len(moments) else ""
    return f"{' or '.join(commands)} to the {WHO[undo.actor]}{must}{condition}"


def _moments(step: Step[Any], record: OperationRecord) -> Iterator[OperationRecord]:
    """Yield the moments at which a rollback may begin after the step: they decide which epoch it sets."""
    steps = table_of(record).steps
    begun = [*record.begun]
    for each in steps[steps.index(step) :]:
        begun.append(each.name)
        yield record.model_copy(update={"begun": tuple(begun)})
        if each.point_of_no_return:
            return


def _asked(command: Callable[[OperationRecord], Any], record: OperationRecord) -> str:
    made = command(record)
    if isinstance(made, RegistryChange):
        return "change of the registry"
    if isinstance(made, Hold):
        return "wait"
    return f"`{type(made).__name__}{_arguments(made)}`"


def _arguments(command: StepCommand[Any]) -> str:
    found = getattr(command, "assignment", command)
    shown = [(name, getattr(found, name, None)) for name in TELLING]
    if type(command).__name__ == "ResetRole":
        shown = [(name, value) for name, value in shown if name != "epoch"]
    said = ", ".join(_argument(name, value) for name, value in shown if value not in (None, [], {}))
    return f"({said})" if said else ""


def _argument(name: str, value: Any) -> str:
    if name in BY_VALUE:
        return str(value) if name == "role" else f"{name}={str(value).lower()}"
    if name in ("epoch", "beside", "interim", "resumes"):
        return _epoch(value) if name == "epoch" else f"{name} {_epoch(value)}"
    if name == "epochs":
        return f"[{', '.join(map(_epoch, value))}]"
    return f"settlement of {_epoch(value.epoch)}" if name == "settlement" else name


def _epoch(epoch: int) -> str:
    return "e" if epoch == OLD_EPOCH else f"e+{epoch - OLD_EPOCH}"


def _sequence(strategy: Strategy) -> str:
    """Return the steps as a picture."""
    taking_part = [actor for actor in Actor if any(step.actor is actor for step in strategy.steps)]
    lines = ["```mermaid", "sequenceDiagram"]
    # The coordinator comes first: everything begins there.
    lines += [f"    participant {actor.value} as {WHO[actor]}" for actor in reversed(taking_part)]
    for number, step in enumerate(strategy.steps, 1):
        if step.actor is Actor.COORDINATOR:
            lines.append(f"    note over coordinator: {number} {step.name}")
            continue
        lines.append(f"    coordinator->>{step.actor.value}: {number} {step.name}")
        if step.fact is not Done:
            lines.append(f"    {step.actor.value}-->>coordinator: {step.fact.__name__}")
        if step.point_of_no_return:
            last = taking_part[0].value
            lines.append(f"    note over coordinator,{last}: point of no return")
    return "\n".join([*lines, "```"])


def _strategies() -> str:
    head = (
        "strategy",
        "in short",
        "state crosses",
        "both sites run at once",
        "empty beginning",
        "comparisons",
    )
    rows = [
        (
            f"`{strategy.name}`",
            strategy.summary,
            _yes(strategy.carries_state),
            _yes(strategy.interim_epoch),
            _yes(strategy.empty_beginning),
            ", ".join(f"`{check}`" for check in strategy.checks) or NOTHING,
        )
        for strategy in strategies().values()
    ]
    return _table(head, rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _operations() -> str:
    others = [table for _, table in sorted(tables().items()) if table.kind is not OperationKind.MIGRATE]
    rows = [
        (
            f"`{table.name}`",
            table.summary,
            " → ".join(
                step.name + (" *(point of no return)*" if step.point_of_no_return else "")
                for step in table.steps
            ),
        )
        for table in others
    ]
    return _table(("table", "for", "steps"), rows)


def _walk(strategy: Strategy) -> Iterator[tuple[Step[Any], OperationRecord]]:
    """Yield each step with a sample operation at the moment when the step begins."""
    record = _sample(strategy)
    for step in strategy.steps:
        yield step, record
        facts = {**record.facts, step.name: _sample_of(step.fact)}
        record = record.model_copy(update={"facts": facts, "begun": (*record.begun, step.name)})


def _sample(strategy: Strategy) -> OperationRecord:
    spec = JobSpec.model_validate(EXAMPLE_SPEC)
    before = JobEntry(
        spec=spec,
        site="source",
        epoch=OLD_EPOCH,
        inputs=EXAMPLE_ASSIGNMENT["inputs"],
        output={**EXAMPLE_ASSIGNMENT["output"], "site": "output"},  # pyright: ignore[reportArgumentType]
    )
    after = before.at_epoch(before.next_epoch(interim=strategy.interim_epoch))
    return OperationRecord(
        id="m1",
        command="c1",
        kind=OperationKind.MIGRATE,
        job=spec.name,
        strategy=strategy.name,
        before=before,
        after=after.model_copy(update={"site": "target", "generation": 2 if strategy.empty_beginning else 1}),
        old_epoch=OLD_EPOCH,
        new_epoch=after.epoch,
        begun_at=now(),
    )


def _sample_of(fact: type[Model]) -> dict[str, Any]:
    """Return an answer in which all fields have values: the tables show which of them are passed on."""
    values: dict[str, Any] = {
        "job": "job", "epoch": OLD_EPOCH, "state": "running", "serials": {"input": 1}, "batch": 1,
        "last_processed_at": None, "digest": "9c1e", "have": {"file": "9c1e"}, "output_serial": 1,
        "held_s": 0.0,
    }  # fmt: skip
    return {name: value for name, value in values.items() if name in fact.model_fields}


def main(arguments: list[str]) -> int:
    """Write the document, or check it. Return the exit code."""
    document = DOCUMENT.read_text()
    now_written = written(document)
    if "--check" not in arguments:
        DOCUMENT.write_text(now_written)
    elif document != now_written:
        print(f"{DOCUMENT} differs from the strategies: run `make export`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
