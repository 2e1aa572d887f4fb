"""The options behind `WITH`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.contracts.pipeline import PolicyName
from towpath.queries.problems import problem
from towpath.queries.tree import Algorithm, Options, Place


@dataclass(frozen=True)
class _Option:
    field: str
    """Of `Options`."""
    allowed: str | list[str]
    fits: Callable[[Any], bool]
    make: Callable[[Any], Any] = lambda value: value


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def _number(field: str, allowed: str, fits: Callable[[float], bool]) -> _Option:
    return _Option(field, allowed, lambda value: _is_number(value) and fits(value))


def _whole(field: str, allowed: str, least: int, most: int) -> _Option:
    def fits(value: float) -> bool:
        return value == int(value) and least <= value <= most

    return _Option(field, allowed, lambda value: _is_number(value) and fits(value), int)


POLICIES = [str(policy) for policy in PolicyName]

_RAINBOW_AROUND = re.compile(r"^rainbow_|(_?(aware|scheduler))+$")
_OF_RAINBOW = {
    "perf": PolicyName.PERFORMANCE,
    "perfdq": PolicyName.QUALITY,
    "perfenergy": PolicyName.ENERGY,
}
"""Name of a scheduler of RAINBOW, without what is around it → the policy that follows it."""


def _policy(written: Any) -> str | None:
    """Return a policy's name, also as RAINBOW writes it: `RAINBOW_EnergyAware`, `PerfDQScheduler`."""
    name = _RAINBOW_AROUND.sub("", str(written).lower())
    # Plain: Spark's workers get the options, and know no contracts.
    found = _OF_RAINBOW.get(name, name)
    return str(found) if found in POLICIES else None


_ALGORITHMS = [str(algorithm) for algorithm in Algorithm]

OPTIONS = {
    "SAMPLE": _number("sample", "more than 0, at most 1", lambda value: 0 < value <= 1),
    "MAX_ERROR": _number("max_error", "more than 0, less than 1", lambda value: 0 < value < 1),
    "CONFIDENCE": _number("confidence", "0.5 to 0.9999", lambda value: 0.5 <= value <= 0.9999),
    "SALIENCE": _whole("salience", "a whole number, 0 to 100", 0, 100),
    "SCHEDULER": _Option("scheduler", POLICIES, lambda value: _policy(value) is not None, _policy),
    "ALGORITHM": _Option(
        "algorithm",
        _ALGORITHMS,
        lambda value: str(value).lower() in _ALGORITHMS,
        lambda value: Algorithm(value.lower()),
    ),
    "K": _whole("k", "a whole number, 0 to 1,000,000", 0, 1_000_000),
    "R": _number("r", "0 or more", lambda value: value >= 0),
}
"""Name in the text → what it is."""

_TOGETHER = (("MAX_ERROR", "CONFIDENCE"), ("ALGORITHM", "K", "R"))
_CHOOSING = ("MAX_ERROR", "SALIENCE")


def options_of(given: Sequence[tuple[str, Any, Place]]) -> Options:
    """Return the options. Raises `TowpathError` that names the option and what is allowed."""
    found: dict[str, Any] = {}
    places = {name.upper(): place for name, _, place in given}
    for written, value, place in given:
        name = written.upper()
        option = OPTIONS.get(name)
        if option is None:
            raise problem(place, f"there is no option {written!r}", found=name, allowed=[*OPTIONS])
        if option.field in found:
            raise problem(place, f"{name} is given twice", found=name)
        if not option.fits(value):
            raise problem(place, f"{name} cannot be {value!r}", found=value, allowed=option.allowed)
        found[option.field] = option.make(value)
    for names in _TOGETHER:
        missing = [name for name in names if name not in places]
        if 0 < len(missing) < len(names):
            known = next(name for name in names if name in places)
            raise problem(
                places[known], f"{known} needs {' and '.join(missing)}", allowed=" AND ".join(names)
            )
    for name in _CHOOSING:
        if name in places and "SAMPLE" in places:
            what = f"SAMPLE is a fixed share, and {name} chooses one"
            raise problem(places["SAMPLE"], what, allowed="one of them")
    return Options(**found)
