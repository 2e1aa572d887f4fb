"""From an experiment of Chaos Toolkit to a scenario. What Towpath cannot do is refused with its place."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from towpath.composition.texts import load
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import is_name
from towpath.contracts.scenario import Scenario
from towpath.contracts.scenario_load import LONGEST_S
from towpath.lab.scenarios.chaostoolkit.assumed_mesh import assumed_mesh
from towpath.lab.scenarios.chaostoolkit.configuration import substituted
from towpath.lab.scenarios.chaostoolkit.exporting import (
    ACTIONS,
    EXTENDED,
    EXTENSION,
    FUNCTIONS,
    ORDER,
    PROBES,
    WRAPPED,
    Document,
)
from towpath.lab.scenarios.chaostoolkit.http_steps import check_request, probe_of_request, step_of_request
from towpath.lab.scenarios.reading import parse

ACTION_OF = {function: action for action, function in FUNCTIONS.items()}

LIMITED = {"output_gap": "at_most_s", "latency": "at_most_s", "lag": "at_most_events"}
"""Probes of which less is never worse, and the field that says how much there may be."""

RANGED = ("throughput", *LIMITED, "metric")
"""Probes whose tolerance is a range."""

SAME_DISTANCE = 1e-6
"""Percentages that differ by less are the same."""


def read_experiment(path: Path) -> Document:
    """The content of an experiment, JSON or YAML. Raises `TowpathError`."""
    try:
        content = load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _refused("not readable", "experiment", str(path), "a JSON or YAML file") from error
    if not isinstance(content, dict):
        raise _refused("no experiment", "experiment", str(path), "title, method, …")
    return content


def imported(experiment: Mapping[str, Any], *, allow_process: bool = False) -> Scenario:
    """The scenario of an experiment.

    Raises `TowpathError` naming the place of what is not Towpath's: a foreign action or probe, a rollback
    that a run does not do by itself, a program without `allow_process`.
    """
    experiment = substituted(experiment)
    extension = _extension(experiment)
    name = _name(experiment.get("title"))
    description = experiment.get("description") or ""
    document: Document = {
        "name": name,
        **({"description": description} if description != name else {}),
        **{field: extension[field] for field in EXTENDED if field in extension},
        "steady_state": list(_probes(experiment)),
        "timeline": _as_written(list(_steps(experiment, allow_process)), extension.get(ORDER)),
    }
    _check_rollbacks(experiment)
    if not extension:
        document["mesh"] = assumed_mesh(document)
    return parse(document, "experiment")


def _as_written(steps: list[Document], order: Any) -> list[Document]:
    """The steps in the order of the scenario that was exported, unless somebody added some or took some."""
    if not isinstance(order, list) or sorted(order, key=str) != sorted(range(len(steps)), key=str):
        return steps
    return [step for _, step in sorted(zip(order, steps, strict=True), key=lambda pair: pair[0])]


def _extension(experiment: Mapping[str, Any]) -> Document:
    extensions = experiment.get("extensions") or []
    return next((dict(e) for e in extensions if e.get("name") == EXTENSION), {})


def _name(title: Any) -> str:
    """A title as the name of a scenario."""
    if isinstance(title, str) and is_name(title):
        return title
    return re.sub(r"[^a-z0-9]+", "-", str(title or "experiment").lower()).strip("-0123456789")[:48].strip("-")


def _probes(experiment: Mapping[str, Any]) -> Iterator[Document]:
    hypothesis = experiment.get("steady-state-hypothesis") or {}
    probes = hypothesis.get("probes") or []
    if not probes:
        raise _refused(
            "no steady state", "steady-state-hypothesis.probes", None, "at least one probe of Towpath"
        )
    for position, probe in enumerate(probes):
        place = f"steady-state-hypothesis.probes.{position}"
        provider = probe.get("provider") or {}
        if provider.get("type") == "http":
            yield probe_of_request(provider, probe.get("tolerance"), place)
        else:
            yield _probe(provider, probe.get("tolerance"), place)


def _probe(provider: Mapping[str, Any], tolerance: Any, place: str) -> Document:
    function = provider.get("func")
    if provider.get("type") != "python" or provider.get("module") != PROBES:
        raise _foreign(provider, place, PROBES)
    if function == "site_up":
        if tolerance is not True:
            raise _refused("not a tolerance of this probe", f"{place}.tolerance", tolerance, "true")
        return {"probe": function, **(provider.get("arguments") or {})}
    if function not in RANGED:
        raise _refused("no such probe", f"{place}.provider.func", function, [*RANGED, "site_up", "http: GET"])
    low, high = _range(tolerance, place)
    said = _tolerated(str(function), low, high, place)
    return {"probe": function, **(provider.get("arguments") or {}), **said}


def _range(tolerance: Any, place: str) -> tuple[float, float]:
    found = tolerance.get("range") if isinstance(tolerance, dict) else tolerance
    if isinstance(found, list) and len(found) == 2 and all(isinstance(v, int | float) for v in found):
        return found[0], found[1]
    raise _refused("not a range", f"{place}.tolerance", tolerance, "type: range, range: [from, to]")


def _tolerated(function: str, low: float, high: float, place: str) -> Document:
    """What a range says of a probe. Raises `TowpathError` when the probe cannot say it."""
    if function == "metric":
        bounds = (("at_least", low), ("at_most", high))
        return {name: value for name, value in bounds if abs(value) < sys.float_info.max}
    if function == "throughput":
        within = high - 100
        if within <= 0 or abs(100 - low - within) > SAME_DISTANCE:
            allowed = "a range that goes as far below 100 as above, such as [80, 120]"
            raise _refused("not a tolerance of this probe", f"{place}.tolerance", f"[{low}, {high}]", allowed)
        return {"within_percent": round(within, 6)}
    if low > 0:
        allowed = f"[0, {high:g}]: less is never worse"
        raise _refused("not a tolerance of this probe", f"{place}.tolerance", f"[{low}, {high}]", allowed)
    return {LIMITED[function]: int(high) if function == "lag" else high}


def _steps(experiment: Mapping[str, Any], allow_process: bool) -> Iterator[Document]:
    now = 0.0
    for position, written in enumerate(experiment.get("method") or []):
        place = f"method.{position}"
        entry = _meant(written, experiment, place)
        pauses, provider = entry.get("pauses") or {}, entry.get("provider") or {}
        now = round(now + _pause(pauses, "before", place), 6)
        if entry.get("type") == "probe":
            _check_probe(provider, place)  # It is not a step: probes look all the time.
        elif entry.get("type") == "action":
            yield _step(provider, place, now, allow_process)
        else:
            raise _refused("neither action nor probe", f"{place}.type", entry.get("type"), "action, probe")
        now = round(now + _pause(pauses, "after", place), 6)


def _meant(entry: Mapping[str, Any], experiment: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The activity that an entry of the method is, or refers to by its name."""
    if "ref" not in entry:
        return entry
    hypothesis = experiment.get("steady-state-hypothesis") or {}
    activities = [*(hypothesis.get("probes") or []), *(experiment.get("method") or [])]
    named = {str(each["name"]): each for each in activities if "name" in each}
    if entry["ref"] not in named:
        raise _refused("no activity of this name", f"{place}.ref", entry["ref"], sorted(named))
    return named[entry["ref"]]


def _pause(pauses: Mapping[str, Any], which: str, place: str) -> float:
    """Seconds."""
    given = pauses.get(which, 0)
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_S:
        allowed = f"seconds, from 0 to {LONGEST_S:g}"
        raise _refused("not a length of time", f"{place}.pauses.{which}", given, allowed)
    return seconds


def _check_probe(provider: Mapping[str, Any], place: str) -> None:
    if provider.get("type") == "http":
        check_request(provider, place)
    elif provider.get("module") != PROBES:
        raise _foreign(provider, place, PROBES)


def _step(provider: Mapping[str, Any], place: str, now: float, allow_process: bool) -> Document:
    arguments = provider.get("arguments") or {}
    when: Document = {"at": now}
    if isinstance(arguments, dict):
        arguments = dict(arguments)
        when = {"on": arguments.pop("on")} if "on" in arguments else {"at": now}
    if provider.get("type") == "http":
        return when | step_of_request(provider, place)
    if provider.get("type") == "process":
        if not allow_process:
            raise _refused(
                "a program", f"{place}.provider", provider.get("path"), "programs only with --allow-process"
            )
        return when | {"process": _process(provider)}
    action = ACTION_OF.get(str(provider.get("func")))
    if provider.get("type") != "python" or provider.get("module") != ACTIONS:
        raise _foreign(provider, place, ACTIONS)
    if action is None:
        raise _refused("no such action", f"{place}.provider.func", provider.get("func"), list(ACTION_OF))
    wrapper = WRAPPED.get(action)
    if wrapper is None:
        return when | {action: arguments}
    if wrapper not in arguments:
        raise _refused("an argument is missing", f"{place}.provider.arguments", None, wrapper)
    return when | {action: arguments[wrapper]}


def _process(provider: Mapping[str, Any]) -> Document:
    given = provider.get("arguments") or []
    if isinstance(given, str):
        given = shlex.split(given)
    elif isinstance(given, dict):
        given = [str(part) for pair in given.items() for part in pair if part not in (None, "")]
    timeout = {"timeout_s": provider["timeout"]} if provider.get("timeout") is not None else {}
    return {"path": provider.get("path"), "arguments": [str(part) for part in given], **timeout}


def _check_rollbacks(experiment: Mapping[str, Any]) -> None:
    """A run puts back by itself what it changed; anything else would be forgotten."""
    for position, entry in enumerate(experiment.get("rollbacks") or []):
        provider = entry.get("provider") or {}
        if provider.get("module") != ACTIONS or provider.get("func") not in ("unload_rules", "remove"):
            raise _foreign(provider, f"rollbacks.{position}", f"unload_rules and remove of {ACTIONS}")


def _foreign(provider: Mapping[str, Any], place: str, allowed: str) -> TowpathError:
    kind = provider.get("type")
    what = provider.get("module") or provider.get("path") or provider.get("url")
    function = f".{provider['func']}" if provider.get("func") else ""
    return _refused("not Towpath's", f"{place}.provider", f"{kind} {what}{function}", allowed)


def _refused(message: str, field: str, value: Any, allowed: str | list[str]) -> TowpathError:
    return TowpathError(ErrorCode.NOT_ALLOWED, message, field=field, value=value, allowed=allowed)
