"""`towpath check`: judge a job's results. Was anything lost, repeated, wrong, out of order or late?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.checker.moments import TimeUnit
from towpath.checker.report import as_json, as_table
from towpath.checker.verdict import CLOCK_SKEW_S, NOTICES, Leniency, Verdict
from towpath.cli import check_options as given
from towpath.cli.check_options import invalid_option, refuse_unused
from towpath.cli.output import print_json, print_rich
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError

_OF_RECORDINGS = {"airport", "limit"}
_OF_COMPARISONS = {"expected", "against", "until_complete", *_OF_RECORDINGS}
"""Options for a topic of a job whose results are compared with those of a file or a recording."""
_OF_COLLECTING = {"site", "seconds", "stored", "broker", "username", "tls", "ca_file", "record"}
_OF_TOPICS = {"topic", "site", "seconds", "as_json_", "late_after_s", "tolerance", "clock_skew_s", "allow"}
"""Options that such a comparison has besides."""


def check(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="Output topic of a job, or of any MQTT broker.")
    ] = None,
    site: Annotated[str | None, typer.Option("--site", help="The site where the output is.")] = None,
    seconds: Annotated[float, typer.Option("--for", min=0, help="How long to collect.")] = 60.0,
    until_complete: Annotated[
        bool, typer.Option("--until-complete", help="End earlier, once all came and then none for 5 s.")
    ] = False,
    expected: Annotated[
        Path | None, typer.Option(help="File with the expected results, as JSON lines.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="`departures`: compute a window job's results from the recording. `input`: compute those of "
            "a processing window from what its input stream holds."
        ),
    ] = None,
    airport: Annotated[str | None, typer.Option(help="As given to replay.", show_default="all three")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="As given to replay.", show_default="all")] = None,
    late_after_s: Annotated[
        float | None, typer.Option("--late-after", min=0, help="Seconds after which a result counts as late.")
    ] = None,
    as_json_: AsJson = False,
    input_: given.InputFile = None,
    output: given.OutputFile = None,
    truth: given.TruthFile = None,
    log: given.LogFile = None,
    record: given.RecordFile = None,
    stored: given.Stored = False,
    broker: given.Broker = None,
    username: given.Username = None,
    tls: given.Tls = False,
    ca_file: given.CaFile = None,
    rule: given.RuleName = None,
    key: given.Key = None,
    identity: given.IdentityFields = None,
    compare: given.Compare = None,
    where: given.Where = None,
    time_field: given.TimeField = None,
    time_unit: given.Unit = TimeUnit.SECONDS,
    size_s: given.SizeS = None,
    value_field: given.ValueField = None,
    result_field: given.ResultField = None,
    window_start: given.WindowStart = "window_start",
    window_end: given.WindowEnd = None,
    watermark_s: given.WatermarkS = None,
    text_field: given.TextField = "text",
    word_field: given.WordField = "word",
    serial_field: given.SerialField = None,
    tolerance: given.Tolerance = 1e-9,
    allow: given.Allow = None,
    epoch_field: given.EpochField = None,
    offset_field: given.OffsetField = None,
    received_field: given.ReceivedField = None,
    stored_field: given.StoredField = None,
    connection_field: given.ConnectionField = None,
    subscriber_field: given.SubscriberField = None,
    clock_skew_s: given.ClockSkewS = CLOCK_SKEW_S,
) -> None:
    """Compare results with the expected ones: lost, duplicated, unseen, wrong, late, out of order?

    **A topic of a job**, over MQTT. Start it before the events flow: only new results arrive. A line on
    stderr tells when it is subscribed.

    Example: `towpath check departures/hourly --site jfk --for 90 --against departures --airport JFK`

    **Files**, of any pipeline: no mesh is needed. `--input` has one JSON object a line (or is CSV with a
    header), `--output` one result a line, in the order of receipt: a plain object, a result of Towpath, or a
    recorded message as `mosquitto_sub -F %j` writes it. A name that ends in `.gz` is unpacked.

    Example: `towpath check --input events.jsonl --output results.jsonl --rule window-count --key carrier
    --size-s 60 --time-field at`

    `{"at": "2026-01-01T00:00:07Z", "carrier": "UA"}` is an event, and
    `{"window_start": "2026-01-01T00:00:00Z", "carrier": "UA", "count": 1}` a result, of such files.

    **Rules**: `pass-through`, `filter`; `window-` and `range-` with `count`, `sum`, `min`, `max`, `average`;
    `word-count`, `running-count`, `latest-by-key`. With `--truth FILE` the results are given instead.

    **A log or another broker**: `towpath check TOPIC --site jfk --stored …` reads what the job's OUT stream
    holds, and `towpath check TOPIC --broker HOST:PORT --for 60 …` collects from any MQTT broker; with
    `--username` and the password in `TOWPATH_BROKER_PASSWORD`, and with `--tls`, where that is asked for.

    The exit code is 0 if all is as it should be, 1 if something was found, 2 if the input cannot be used. For
    files every fault counts; for a topic of a job order and lateness are told and do not count.
    """
    # They import pandas, which takes longer than most commands run.
    from towpath.cli import check_files, check_topics, range_checking

    home = home_of(context)
    if rule is not None or truth is not None or output is not None:
        refuse_unused(context, _OF_COMPARISONS, "with --expected or --against")
        if output is not None:
            refuse_unused(context, _OF_COLLECTING, "with a TOPIC, and without --output")
        check_files.run(home, context.params)
        return
    if topic is None or site is None:
        raise invalid_option(
            "nothing to judge", "topic", topic or "nothing", "TOPIC with --site, or --output FILE"
        )
    if (expected is None) == (against is None):
        raise TowpathError(
            ErrorCode.INVALID, "nothing to compare with", allowed="either --expected or --against"
        )
    refuse_unused(context, context.params.keys() - _OF_COMPARISONS - _OF_TOPICS, "with --rule or --truth")
    if expected is not None or against == "input":
        refuse_unused(context, _OF_RECORDINGS, "with the recording that --against names")
    leniency = Leniency(tolerance, late_after_s, clock_skew_s)
    allowed = (*NOTICES, *check_files.fields_of(allow))
    check_files.faults_of(Verdict(), allowed)
    if against == "input":
        if until_complete:
            raise invalid_option(
                "windows end as long as the job runs", "until_complete", "true", "--for SECONDS"
            )
        verdict = asyncio.run(range_checking.judge_against_input(home, site, topic, seconds, leniency))
    else:
        if expected is not None:
            wanted = check_topics.read_expected(expected)
        else:
            wanted = asyncio.run(check_topics.computed(home, site, topic, against or "", airport, limit))
        verdict = asyncio.run(
            check_topics.judge_topic(home, site, topic, wanted, seconds, until_complete, leniency)
        )
    if as_json_:
        print_json(as_json(verdict))
    else:
        print_rich(as_table(verdict, f"{site}/{topic}"))
    if found := check_files.faults_of(verdict, allowed):
        raise TowpathError(ErrorCode.FAILED, f"the results are not what they should be: {found}")
