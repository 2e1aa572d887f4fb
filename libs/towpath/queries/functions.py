"""The functions of the language: names, synonyms, and what each takes and returns.

How a function computes is in `evaluation` and, slow and obvious, in `reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """The values that a function looks at."""

    WINDOWED = "windowed"
    """The values in a window: `AVG(delay, 10 MINUTES)`."""
    CUMULATIVE = "cumulative"
    """All values of a key so far: `RUNNING_MEAN(delay)`."""
    MAP = "map"
    """One value: `ABS(delay)`."""


@dataclass(frozen=True)
class Parameter:
    """A number in brackets behind a function's name."""

    name: str
    allowed: str
    """For people."""
    fits: Callable[[float], bool]


@dataclass(frozen=True)
class Function:
    """A function of the language."""

    name: str
    form: Form
    synonyms: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    arguments: int = 1
    takes_texts: bool = False
    """Its values may be texts. All other functions take numbers."""
    is_list: bool = False
    """It returns a list, so nothing can be computed with it."""


OUTLIERS = "OUTLIER_DETECTION"
"""The function that needs an algorithm."""

_SHARE = Parameter("share", "more than 0, at most 1", lambda value: 0 < value <= 1)
_BELOW_ONE = Parameter("weight", "more than 0, less than 1", lambda value: 0 < value < 1)
_PERCENT = Parameter("percent", "0 to 100", lambda value: 0 <= value <= 100)


def _whole(name: str, largest: int) -> Parameter:
    return Parameter(
        name, f"a whole number, 1 to {largest:,}", lambda value: value == int(value) and 1 <= value <= largest
    )


_ALL = (
    Function("AVG", Form.WINDOWED, ("ARITHMETIC_MEAN", "MEAN")),
    Function("SUM", Form.WINDOWED),
    Function("MIN", Form.WINDOWED),
    Function("MAX", Form.WINDOWED),
    Function("COUNT", Form.WINDOWED, takes_texts=True),
    Function("VARIANCE", Form.WINDOWED, ("VAR",)),
    Function("SDEV", Form.WINDOWED, ("STD", "STDDEV")),
    Function("GEOMETRIC_MEAN", Form.WINDOWED),
    Function("MEDIAN", Form.WINDOWED),
    Function("PERCENTILE", Form.WINDOWED, parameters=(_PERCENT,)),
    Function("MODE", Form.WINDOWED),
    Function("TOP_K", Form.WINDOWED, parameters=(_whole("k", 1_000),), takes_texts=True, is_list=True),
    Function("HISTOGRAM", Form.WINDOWED, parameters=(_whole("bins", 1_000),), is_list=True),
    Function("CORRELATION", Form.WINDOWED, arguments=2),
    Function(OUTLIERS, Form.WINDOWED, ("OUTLIER_DETECTOR",), is_list=True),
    Function("RUNNING_COUNT", Form.CUMULATIVE, takes_texts=True),
    Function("RUNNING_MEAN", Form.CUMULATIVE, ("RUNNING_AVG",)),
    Function("RUNNING_MAX", Form.CUMULATIVE),
    Function("RUNNING_MIN", Form.CUMULATIVE),
    Function("RUNNING_SDEV", Form.CUMULATIVE, ("RUNNING_STD", "RUNNING_STDDEV")),
    Function("EWMA", Form.CUMULATIVE, parameters=(_SHARE,)),
    Function("PEWMA", Form.CUMULATIVE, parameters=(_BELOW_ONE,)),
    Function("DIFF", Form.CUMULATIVE),
    Function("ABS", Form.MAP),
    Function("SQRT", Form.MAP),
    Function("SQR", Form.MAP),
)

FUNCTIONS = {function.name: function for function in _ALL}
"""Name → function."""

NAMES = {name: function for function in _ALL for name in (function.name, *function.synonyms)}
"""Name or synonym → function."""
