"""Options of `towpath check` for files, and for pipelines that are not Towpath's."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from towpath.checker.moments import TimeUnit
from towpath.contracts.errors import ErrorCode, TowpathError

_FILES, _RULE, _HOW = "Files and logs", "What should come out", "How results came"


def _file(name: str, text: str) -> Any:
    return typer.Option(name, metavar="FILE", rich_help_panel=_FILES, help=text)


def _field(panel: str, text: str, default: bool | str = True, name: str | None = None) -> Any:
    names = () if name is None else (name,)
    return typer.Option(*names, metavar="FIELD", rich_help_panel=panel, help=text, show_default=default)


def _stated(panel: str, text: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, help=text, **limits)


InputFile = Annotated[Path | None, _file("--input", "Events: .jsonl or .csv, or .gz.")]
OutputFile = Annotated[
    Path | None,
    _file("--output", "Results in order of receipt: plain objects, results of Towpath, recorded messages."),
]
TruthFile = Annotated[Path | None, _file("--truth", "Results there should be.")]
LogFile = Annotated[Path | None, _file("--log", "What was stored: tells unseen from lost.")]
RecordFile = Annotated[Path | None, _file("--record", "Keep what came on TOPIC there.")]
Stored = Annotated[bool, _stated(_FILES, "Judge what the OUT stream of TOPIC holds.", "--stored")]
Broker = Annotated[
    str | None, _stated(_FILES, "Collect TOPIC from this MQTT broker instead.", metavar="HOST:PORT")
]
Username = Annotated[
    str | None,
    _stated(_FILES, "At that broker; the password is read from TOWPATH_BROKER_PASSWORD.", metavar="NAME"),
]
Tls = Annotated[bool, _stated(_FILES, "Speak TLS with that broker, and check who it is.", "--tls")]
CaFile = Annotated[
    Path | None,
    _stated(_FILES, "Certificates (PEM) to check it with.", metavar="FILE", show_default="this machine's"),
]

RuleName = Annotated[str | None, _stated(_RULE, "What the pipeline does: see the list above.", "--rule")]
Key = Annotated[list[str] | None, _field(_RULE, "Of groups and order.")]
IdentityFields = Annotated[list[str] | None, _field(_RULE, "Says which event it is.", name="--identity")]
Compare = Annotated[list[str] | None, _field(_RULE, "Must come out unchanged.", "all")]
Where = Annotated[str | None, _stated(_RULE, "Of `filter`, in CEL: delay > 15 && carrier in ['AA', 'UA']")]
TimeField = Annotated[str | None, _field(_RULE, "Event time: ISO 8601 or number.")]
Unit = Annotated[TimeUnit, _stated(_RULE, "Of times as numbers.", "--time-unit")]
SizeS = Annotated[float | None, _stated(_RULE, "Length of windows, seconds.", "--size-s")]
ValueField = Annotated[str | None, _field(_RULE, "What is summed up.")]
ResultField = Annotated[str | None, _field(_RULE, "The number in results.", "rule's last word")]
WindowStart = Annotated[str, _field(_RULE, "Start of a result's window.")]
WindowEnd = Annotated[str | None, _field(_RULE, "Its end: results are then known by that.")]
WatermarkS = Annotated[
    float | None,
    _stated(
        _RULE,
        "Windows that end later than the newest event less so much may be missing.",
        "--watermark-s",
        min=0,
    ),
]
TextField = Annotated[str, _field(_RULE, "Of `word-count`: the text of an event.")]
WordField = Annotated[str, _field(_RULE, "Of `word-count`: the word of a result.")]
SerialField = Annotated[str | None, _field(_RULE, "Number of an event.", "its line")]
Tolerance = Annotated[float, _stated(_RULE, "Relative difference of numbers that is none.", min=0)]

Allow = Annotated[list[str] | None, _stated(_HOW, "No fault here, such as `out_of_order`.", metavar="WORD")]
EpochField = Annotated[str | None, _field(_HOW, "Which owner published it.")]
OffsetField = Annotated[str | None, _field(_HOW, "Its place in the log.")]
ReceivedField = Annotated[str | None, _field(_HOW, "When it was received.")]
StoredField = Annotated[str | None, _field(_HOW, "When its newest event was stored.")]
ConnectionField = Annotated[str | None, _field(_HOW, "Its connection, from 1.")]
SubscriberField = Annotated[str | None, _field(_HOW, "Who received it.")]
ClockSkewS = Annotated[float, _stated(_HOW, "Seconds clocks may differ by.", "--clock-skew", min=0)]


def invalid_option(message: str, field: str, value: object, allowed: str) -> TowpathError:
    """Return the refusal of an option, or of the file that it names. `value` None: it was not given."""
    shown = "nothing" if value is None else str(value)
    return TowpathError(ErrorCode.INVALID, message, field=field, value=shown, allowed=allowed)


def refuse_unused(context: typer.Context, names: Collection[str], where: str) -> None:
    """Refuse options that would be ignored: a verdict without them is not the one that was asked for.

    `where` says with what they may be given. Raises `TowpathError` (invalid).
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            raise invalid_option(f"{option} has no meaning here", name, context.params[name], where)
