"""Judge files, logs and topics of any broker by a rule, or by the expected results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from towpath.checker.files import lines_of
from towpath.checker.history import Line
from towpath.checker.moments import TimeUnit
from towpath.checker.observation import ReceivedMessage
from towpath.checker.records import Marks, recorded
from towpath.checker.report import as_json, as_table
from towpath.checker.rule import Terms
from towpath.checker.rules import NamedLines, judge_by_rule, judge_by_truth, rule_called
from towpath.checker.verdict import FAULTS, NOTICES, Leniency, Verdict
from towpath.cli.check_broker import ForeignBroker, broker_of, collected, collector_at
from towpath.cli.check_options import invalid_option
from towpath.cli.check_topics import job_on
from towpath.cli.connection import ask, load_mesh
from towpath.cli.output import print_json, print_rich, working
from towpath.cli.range_checking import InputStream
from towpath.contracts.commands import ListJobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home


@dataclass(frozen=True)
class ResultsPlace:
    """Source of the results: exactly one of these."""

    file: Path | None
    topic: str | None
    site: str | None
    broker: ForeignBroker | None
    stored: bool
    seconds: float
    record: Path | None


@dataclass(frozen=True)
class Standard:
    """The expected results: those of a rule and its events, or given ones."""

    rule: str | None
    events: Path | None
    truth: Path | None
    log: Path | None
    terms: Terms
    marks: Marks
    leniency: Leniency

    def __post_init__(self) -> None:
        """Raise `TowpathError` (invalid) unless there is either a truth, or a rule and events."""
        if (self.truth is None) == (self.rule is None):
            raise invalid_option("nothing to compare with", "rule", self.rule, "either --rule or --truth")
        if self.rule is not None:
            rule_called(self.rule, self.terms)
            if self.events is None:
                raise invalid_option("the rule needs events", "input", None, "a file of events")
        elif self.events is not None:
            raise invalid_option(
                "the truth needs no events", "input", self.events, "either --truth, or --rule and --input"
            )

    def check_readable(self) -> None:
        """Raise `TowpathError` (invalid) for a file that cannot be read: not after an hour of collecting."""
        for path, field in ((self.events, "input"), (self.truth, "truth"), (self.log, "log")):
            if path is not None and (path.is_file() or not path.exists()):  # A pipe is read once only.
                next(lines_of(path, field), None)

    def judged(self, output: NamedLines) -> Verdict:
        """Return the verdict on these results."""
        log = None if self.log is None else _file(self.log, "log")
        if self.rule is None:
            assert self.truth is not None
            truth = _file(self.truth, "truth")
            return judge_by_truth(self.terms, truth, output, self.marks, self.leniency, log)
        assert self.events is not None
        events = _file(self.events, "input")
        return judge_by_rule(self.rule, self.terms, events, output, self.marks, self.leniency, log)


def run(home: Home, options: Mapping[str, Any]) -> None:
    """Judge by the options of `towpath check`, and print. Raises `TowpathError`: bad input, or faults."""
    allow = fields_of(options["allow"])
    faults_of(Verdict(), allow)
    output = ResultsPlace(
        _path(options["output"]),
        options["topic"],
        options["site"],
        broker_of(options, os.environ),
        options["stored"],
        options["seconds"],
        _path(options["record"]),
    )
    verdict = judge_files(home, standard_of(options), output)
    if options["as_json_"]:
        print_json(as_json(verdict) | {"found": verdict.found(allow)})
    else:
        print_rich(as_table(verdict, str(output.file or output.topic)))
    faults = faults_of(verdict, allow)
    if faults:
        raise TowpathError(ErrorCode.FAILED, f"the results are not what they should be: {faults}")


def standard_of(options: Mapping[str, Any]) -> Standard:
    """Return the standard that the options name."""
    lists = ("key", "identity", "compare")
    terms: dict[str, Any] = {field.name: options[field.name] for field in fields(Terms)}
    terms |= {name: fields_of(terms[name]) for name in lists}
    unit = TimeUnit(options["time_unit"])
    return Standard(
        options["rule"],
        _path(options["input_"]),
        _path(options["truth"]),
        _path(options["log"]),
        Terms(**terms | {"compare": terms["compare"] or None, "time_unit": unit}),
        Marks(
            options["epoch_field"],
            options["offset_field"],
            options["received_field"],
            options["stored_field"],
            options["connection_field"],
            options["subscriber_field"],
            unit,
        ),
        Leniency(options["tolerance"], options["late_after_s"], options["clock_skew_s"]),
    )


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def judge_files(home: Home, standard: Standard, output: ResultsPlace) -> Verdict:
    """Read or collect the results, and judge them. Raises `TowpathError`."""
    if output.file is None:
        standard.check_readable()
    source = _output(home, output)
    with working("judging …"):
        return standard.judged(source)


def faults_of(verdict: Verdict, allow: Collection[str]) -> str:
    """Return the faults that are not allowed, for people. Raises `TowpathError` for an unknown word."""
    for word in allow:
        if word not in (*FAULTS, *NOTICES):
            raise invalid_option("no such fault", "allow", word, ", ".join((*FAULTS, *NOTICES)))
    return ", ".join(f"{count} {word}" for word, count in verdict.found(allow).items())


def fields_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return names of fields. One option may have several, with commas between."""
    return tuple(name for text in given or [] for name in text.split(",") if name)


def _file(path: Path, field: str) -> NamedLines:
    return NamedLines(str(path), lines_of(path, field))


def _output(home: Home, output: ResultsPlace) -> NamedLines:
    if output.file is not None:
        if output.topic is not None:
            raise invalid_option("results from two places", "output", output.file, "either TOPIC or --output")
        return _file(output.file, "output")
    if output.topic is None:
        raise invalid_option("no results", "output", None, "--output FILE, or TOPIC with --site or --broker")
    if (output.site is None) == (output.broker is None):
        raise invalid_option("where is the topic?", "site", output.site, "either --site or --broker")
    if output.stored:
        return asyncio.run(_stored(home, output.site or "", output.topic))
    if output.record is not None:
        _check_writable(output.record)
    messages = asyncio.run(_collected(home, output, output.topic))
    lines = [(number, _line(each)) for number, each in enumerate(messages, start=1)]
    if output.record is not None:
        output.record.write_bytes(b"".join(line + b"\n" for _, line in lines))
    return NamedLines(output.topic, lines)


def _check_writable(path: Path) -> None:
    try:
        path.open("ab").close()  # An earlier record stays until there is a new one.
    except OSError as error:
        raise invalid_option(f"not writable: {error}", "record", path, "a file") from error


def _line(message: ReceivedMessage) -> bytes:
    return recorded(
        message.topic,
        message.payload,
        received_at=message.received_at,
        connection=message.connection,
        subscriber=message.subscriber,
        dup=message.dup,
    )


async def _collected(home: Home, output: ResultsPlace, topic: str) -> list[ReceivedMessage]:
    if output.site is not None:
        collector = await collector_at(home, output.site, topic)
    else:
        assert output.broker is not None
        collector = output.broker.collector(topic)
    return await collected(collector, topic, output.seconds)


async def _stored(home: Home, site: str, topic: str) -> NamedLines:
    """Return the messages in a topic's OUT stream. Their serial numbers are places in the log."""
    job = job_on((await ask(home, ListJobs())).jobs, site, topic)
    access = (await load_mesh(home)).site(site)
    login = access.login("engine")
    stream = InputStream(access.nats_url, login.user, login.password, job.output.stream, None)

    def lines() -> Iterator[Line]:
        for event in stream.all():
            yield event.serial, recorded(topic, event.payload, offset=event.serial)

    return NamedLines(job.output.stream, lines())
