"""The `python` operator: finds the user's function and turns what it returns into results."""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Python
from towpath.operators.columns import (
    INPUT,
    REASON,
    SERIAL,
    STORED_AT,
    first_line,
    json_array,
    json_object,
    read_once,
)
from towpath.operators.json_events import named
from towpath.operators.publication import Publication, ResultParts

ENTRY = "operator.entry"
_WINDOW = "window"
_NOT_VALUES = frozenset({SERIAL, INPUT, STORED_AT, _WINDOW})


def compile_python(parsed: list[DataFrame], operator: Python, publication: Publication) -> DataFrame:
    """Results of the user's function over the good rows, and the rejected events beside them."""
    judged = [read_once(rows) for rows in parsed]
    good = [rows.where(named(REASON).isNull()).select(*_visible(operator)) for rows in judged]
    events = reduce(DataFrame.unionByName, good)
    made = _called(load_entry(events.sparkSession, operator), events, operator)
    complete = _completed(made, operator, publication)
    if operator.identity:
        message_id = publication.named_id(json_array([F.col(name) for name in operator.identity]))
    else:
        message_id = publication.event_id()
    results = publication.of_results(complete, message_id, _parts(made))
    return reduce(DataFrame.unionByName, [publication.of_rejected(rows) for rows in judged], results)


def _visible(operator: Python) -> list[str]:
    return [*operator.fields, SERIAL, INPUT, STORED_AT]


def load_entry(spark: SparkSession, operator: Python) -> Callable[..., Any]:
    """The function of `operator.entry`. Raises `TowpathError` if it cannot be had.

    The artefact becomes importable in this process and in Spark's Python workers. What a worker
    gets of the function is its code, not its name: workers outlive a job, and would go on with the
    module they imported before an update.
    """
    module_name, _, function_name = operator.entry.partition(":")
    if operator.artefact is not None:
        _make_importable(spark, Path(operator.artefact), module_name)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # User code may raise anything while it is imported.
        raise _no_entry(f"does not import: {type(error).__name__}: {error}", operator) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise _no_entry(f"module {module_name!r} has no function {function_name!r}", operator)
    if operator.artefact is not None:
        _register(module)
    return function


def _register(module: ModuleType) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[module.__name__.partition(".")[0]])


def _make_importable(spark: SparkSession, artefact: Path, module_name: str) -> None:
    """Put a copy, named by its content, first on the path: an update is then never the old code."""
    if not artefact.exists():
        raise TowpathError(
            ErrorCode.INVALID,
            "there is no such file or directory",
            field="operator.artefact",
            value=str(artefact),
            allowed="a wheel, a zip or a directory",
        )
    archive = _content_addressed(artefact)
    if str(archive) not in sys.path[:1]:
        if str(archive) in sys.path:
            sys.path.remove(str(archive))
        sys.path.insert(0, str(archive))
        spark.sparkContext.addPyFile(str(archive))
    importlib.invalidate_caches()
    package = module_name.partition(".")[0]
    loaded = getattr(sys.modules.get(package), "__spec__", None)
    if loaded is not None and not str(loaded.origin).startswith(str(archive)):
        for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
            del sys.modules[name]


def _content_addressed(artefact: Path) -> Path:
    """A zip with the artefact's content, in a place that its digest names."""
    with tempfile.TemporaryDirectory() as scratch:
        source = artefact
        if artefact.is_dir():
            source = Path(shutil.make_archive(str(Path(scratch) / "code"), "zip", artefact))
        content = source.read_bytes()
    archive = _archives() / f"code-{hashlib.sha256(content).hexdigest()[:32]}.zip"
    if not archive.exists():
        part = archive.with_suffix(".part")
        part.write_bytes(content)
        part.replace(archive)
    return archive


@functools.cache
def _archives() -> Path:
    """A directory of this process alone: code from a place others can write to is not to be run."""
    folder = tempfile.mkdtemp(prefix="towpath-artefacts-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _called(function: Callable[..., Any], events: DataFrame, operator: Python) -> DataFrame:
    try:
        made = function(events, dict(operator.parameters))
    except Exception as error:  # User code may raise anything.
        raise _no_entry(f"{type(error).__name__}: {first_line(error)}", operator) from error
    if not isinstance(made, DataFrame):
        raise _no_entry(f"returns {type(made).__name__}, not a DataFrame", operator)
    return made


def _completed(made: DataFrame, operator: Python, publication: Publication) -> DataFrame:
    """The result with `serial`, `input` and `stored_at`, the missing of which only identity excuses."""
    needed = operator.identity or [SERIAL, STORED_AT]
    if publication.has_several_inputs and not operator.identity:
        needed = [*needed, INPUT]
    missing = [name for name in needed if name not in made.columns]
    if missing:
        raise _no_entry(f"its result lacks {', '.join(missing)}; it has {', '.join(made.columns)}", operator)
    excuses = {SERIAL: F.lit(0), INPUT: F.lit(0), STORED_AT: F.current_timestamp()}
    for name, excuse in excuses.items():
        if name not in made.columns:
            made = made.withColumn(name, excuse)
    return made


def _parts(made: DataFrame) -> ResultParts:
    window = None
    if _WINDOW in made.columns:
        bounds = [F.col(f"{_WINDOW}.{name}").alias(name) for name in ("start", "end")]
        window = json_object(bounds)
    return ResultParts(
        values=json_object([F.col(f"`{name}`") for name in made.columns if name not in _NOT_VALUES]),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT) if INPUT in made.columns else None,
        window=window,
    )


def _no_entry(message: str, operator: Python) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID,
        message,
        field=ENTRY,
        value=operator.entry,
        allowed="module:function that takes a DataFrame and the parameters, and returns a DataFrame "
        "with serial, input and stored_at, or with the columns of identity",
    )
