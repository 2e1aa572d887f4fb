"""The command that judges a job's results: was anything lost, repeated, wrong, out of order or late?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from towpath.checker.collector import ResultCollector
from towpath.checker.identity import Identity, identity_of
from towpath.checker.moments import TimeUnit
from towpath.checker.report import as_json, as_table
from towpath.checker.verdict import CLOCK_SKEW_S, NOTICES, Verdict, judge, values_of
from towpath.cli import check_options as given
from towpath.cli.check_options import invalid_option
from towpath.cli.connection import ask, load_mesh
from towpath.cli.extensions import Recording, recordings
from towpath.cli.output import print_json, print_rich, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import new_identifier
from towpath.contracts.operators import Window, WindowShape
from towpath.mesh.home import Home

Truth = Mapping[Identity, Mapping[str, Any]]

LOOK_EVERY_S = 0.5

SETTLED_S = 5.0
"""After the last expected result, for a repeated one to show: longer than the retry of a micro-batch."""


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
        Path | None, typer.Option(help="File with the results there should be, as JSON lines.")
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
    """Compare results with what they should be: lost, duplicated, unseen, wrong, late, out of order?

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
    home = home_of(context)
    if rule is not None or truth is not None or output is not None:
        # It imports pandas, which takes longer than most commands run.
        from towpath.cli import check_files

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
    if against == "input":
        if until_complete:
            raise invalid_option(
                "windows end as long as the job runs", "until_complete", "true", "--for SECONDS"
            )
        # It imports pandas, which takes longer than most commands run.
        from towpath.cli.range_checking import judge_against_input

        verdict = asyncio.run(judge_against_input(home, site, topic, seconds, late_after_s))
    else:
        if expected is not None:
            wanted = read_expected(expected)
        else:
            wanted = asyncio.run(_computed(home, site, topic, against or "", airport, limit))
        verdict = asyncio.run(_judged(home, site, topic, seconds, until_complete, wanted, late_after_s))
    if as_json_:
        print_json(as_json(verdict))
    else:
        print_rich(as_table(verdict, f"{site}/{topic}"))
    if not verdict.clean:
        found = ", ".join(f"{count} {word}" for word, count in verdict.found(NOTICES).items())
        raise TowpathError(ErrorCode.FAILED, f"the results are not what they should be: {found}")


def read_expected(path: Path) -> Truth:
    """Results by identity, from a file of JSON lines. Raises `TowpathError` naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise invalid_option(f"not readable: {error}", "expected", path, "a file of JSON lines") from error
    truth: dict[Identity, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
            identity, values = identity_of(body), values_of(body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"{path}: line {number} is no result: {error!r}"
            raise invalid_option(problem, "expected", line[:80], "results as jobs publish them") from error
        if identity in truth:
            raise invalid_option(
                f"{path}: line {number} repeats a result", "expected", line[:80], "each once"
            )
        truth[identity] = values
    return truth


async def _computed(
    home: Home, site: str, topic: str, against: str, airport: str | None, limit: int | None
) -> Truth:
    """What the job that publishes on `topic` should make of the recorded departures."""
    known = recordings()
    if against not in known:
        raise invalid_option("no such recording", "against", against, ", ".join([*known, "input"]))
    spec = job_on((await ask(home, ListJobs())).jobs, site, topic).spec
    with working("computing what the results should be …"):
        return await asyncio.to_thread(_window_truth, spec, known[against], airport, limit)


def job_on(jobs: Sequence[JobView], site: str, topic: str) -> JobView:
    """The job that publishes on a topic of a site. Raises `TowpathError` (unknown topic)."""
    outputs = {f"{job.spec.output_site}/{job.spec.output.topic}": job for job in jobs}
    job = outputs.get(f"{site}/{topic}")
    if job is None:
        raise TowpathError(
            ErrorCode.UNKNOWN_TOPIC,
            "no job publishes here",
            field="topic",
            value=f"{site}/{topic}",
            allowed=sorted(outputs),
        )
    return job


def _window_truth(
    spec: JobSpec, load: Callable[[], Recording], airport: str | None, limit: int | None
) -> Truth:
    # It imports pandas, which takes longer than most commands run.
    from towpath.checker.truth import window_truth

    window = spec.operator
    if not isinstance(window, Window) or window.shape is not WindowShape.TUMBLING:
        raise invalid_option(
            "cannot be computed", "topic", spec.output.topic, "the output of a tumbling window"
        )
    if window.event_time is None or window.size_s is None:
        raise invalid_option(
            "depends on when events came", "topic", spec.output.topic, "a window with event_time"
        )
    frame = load()(airport, limit)
    truth = window_truth(frame, window.event_time, window.size_s, window.key, window.aggregates, spec.name)
    return {**truth}


async def _judged(
    home: Home,
    site: str,
    topic: str,
    seconds: float,
    until_complete: bool,
    truth: Truth,
    late_after_s: float | None,
) -> Verdict:
    """Collect for so many seconds, or until complete, then judge."""
    collector = await collector_at(home, site, topic)
    with working("subscribing …") as status:
        async with collector:
            say(f"subscribed to {topic} at {site}: collecting for {seconds:g} s")
            await _collect(collector, status, seconds, truth, until_complete)
    return judge(truth, collector.observations, late_after_s=late_after_s)


async def collector_at(home: Home, site: str, topic: str) -> ResultCollector:
    """A subscriber of one topic, not connected yet."""
    access = (await load_mesh(home)).site(site)
    return ResultCollector(
        access.mqtt_host,
        access.mqtt_port,
        [topic],
        f"check-{new_identifier()}",
        access.device.user,
        access.device.password,
    )


async def _collect(
    collector: ResultCollector, status: Status, seconds: float, truth: Truth, until_complete: bool
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    missing, came, newest_at = set(truth), 0, loop.time()
    while (left := end - loop.time()) > 0:
        collector.check()
        news = collector.observations[came:]
        if news:
            came, newest_at = came + len(news), loop.time()
            missing.difference_update(observation.identity for observation in news)
        elif until_complete and not missing and loop.time() - newest_at > SETTLED_S:
            return
        status.update(f"{came:,} results came, {len(missing):,} are missing; {left:.0f} s left")
        await asyncio.sleep(min(left, LOOK_EVERY_S))
