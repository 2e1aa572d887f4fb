"""Options of `towpath check` for files, and for pipelines that are not Towpath's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from towpath.checker.moments import TimeUnit
from towpath.contracts.errors import ErrorCode, TowpathError

_FILES, _RULE, _HOW = "Files and logs", "What should come out", "How results came"

InputFile = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", rich_help_panel=_FILES, help="Events: .jsonl or .csv, or .gz."),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        rich_help_panel=_FILES,
        help="Results in order of receipt: plain objects, results of Towpath, or recorded messages.",
    ),
]
TruthFile = Annotated[
    Path | None,
    typer.Option("--truth", metavar="FILE", rich_help_panel=_FILES, help="Results there should be."),
]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log", metavar="FILE", rich_help_panel=_FILES, help="What was stored: tells unseen from lost."
    ),
]
RecordFile = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE", rich_help_panel=_FILES, help="Keep what came on TOPIC there."),
]
Stored = Annotated[
    bool,
    typer.Option("--stored", rich_help_panel=_FILES, help="Judge what the OUT stream of TOPIC holds."),
]
Broker = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", rich_help_panel=_FILES, help="Collect TOPIC from this MQTT broker instead."
    ),
]
Username = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_FILES,
        help="At that broker; the password is read from TOWPATH_BROKER_PASSWORD.",
    ),
]
Tls = Annotated[
    bool,
    typer.Option("--tls", rich_help_panel=_FILES, help="Speak TLS with that broker, and check who it is."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_FILES,
        help="Certificates (PEM) to check it with.",
        show_default="this machine's",
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option("--rule", rich_help_panel=_RULE, help="What the pipeline does: see the list above."),
]
Key = Annotated[
    list[str] | None, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Of groups and order.")
]
IdentityFields = Annotated[
    list[str] | None,
    typer.Option("--identity", metavar="FIELD", rich_help_panel=_RULE, help="Says which event it is."),
]
Compare = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Must come out unchanged.", show_default="all"),
]
Where = Annotated[
    str | None,
    typer.Option(rich_help_panel=_RULE, help="Of `filter`, such as: delay > 15"),
]
TimeField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Event time: ISO 8601 or number.")
]
Unit = Annotated[TimeUnit, typer.Option("--time-unit", rich_help_panel=_RULE, help="Of times as numbers.")]
SizeS = Annotated[
    float | None, typer.Option("--size-s", rich_help_panel=_RULE, help="Length of windows, seconds.")
]
ValueField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="What is summed up.")
]
ResultField = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD", rich_help_panel=_RULE, help="The number in results.", show_default="rule's last word"
    ),
]
WindowStart = Annotated[
    str, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Start of a result's window.")
]
WindowEnd = Annotated[
    str | None,
    typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Its end: results are then known by that."),
]
WatermarkS = Annotated[
    float | None,
    typer.Option(
        "--watermark-s",
        min=0,
        rich_help_panel=_RULE,
        help="Windows that end later than the newest event less so much may be missing.",
    ),
]
TextField = Annotated[
    str, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Of `word-count`: the text of an event.")
]
WordField = Annotated[
    str, typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Of `word-count`: the word of a result.")
]
SerialField = Annotated[
    str | None,
    typer.Option(metavar="FIELD", rich_help_panel=_RULE, help="Number of an event.", show_default="its line"),
]
Tolerance = Annotated[
    float, typer.Option(min=0, rich_help_panel=_RULE, help="Relative difference of numbers that is none.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", rich_help_panel=_HOW, help="No fault here, such as `out_of_order`."),
]
EpochField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="Which owner published it.")
]
OffsetField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="Its place in the log.")
]
ReceivedField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="When it was received.")
]
StoredField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="When its newest event was stored.")
]
ConnectionField = Annotated[
    str | None,
    typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="Its connection, from 1."),
]
SubscriberField = Annotated[
    str | None, typer.Option(metavar="FIELD", rich_help_panel=_HOW, help="Who received it.")
]
ClockSkewS = Annotated[
    float, typer.Option("--clock-skew", min=0, rich_help_panel=_HOW, help="Seconds clocks may differ by.")
]


def invalid_option(message: str, field: str, value: object, allowed: str) -> TowpathError:
    """The refusal of an option, or of what is in the file that it names; `value` None: it was not given."""
    shown = "nothing" if value is None else str(value)
    return TowpathError(ErrorCode.INVALID, message, field=field, value=shown, allowed=allowed)
