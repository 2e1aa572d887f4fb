"""Make query texts of any shape that the language has: all functions, windows, clauses, queries upon queries.

The same seed makes the same text. Every text passes parsing and checking. Windows are short, so that the
reference answers over the histories of `query_histories` in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

NUMBERS = ("x", "y", "n")
"""Fields that are numbers."""
TEXTS = ("k", "g")
"""Fields that are texts."""

TYPES = 'fields="x:double, y:double, n:long"'
STREAMS = {
    "s1": f'topic(topic="site/a", sites="*", value="x", {TYPES})',
    "s2": f'topic({TYPES}, topic="site/b", sites="*", value="y", delay="3 SECONDS")',
    "s3": f'site(topic="site/a", sites="jfk", g="u%", value="n", {TYPES})',
    "s4": f'topic(topic="site/c", sites="jfk,lga", k="a", {TYPES}, time="at", delay=2, value="y")',
}

SINGLE = ("AVG", "SUM", "MIN", "MAX", "COUNT", "VARIANCE", "SDEV", "GEOMETRIC_MEAN", "MEDIAN", "MODE")
CUMULATIVE = ("RUNNING_COUNT", "RUNNING_MEAN", "RUNNING_MIN", "RUNNING_MAX", "RUNNING_SDEV", "DIFF")
LISTS = ("TOP_K", "HISTOGRAM", "OUTLIER_DETECTION")
COMPARISONS = (">", "<", ">=", "<=", ">", "<", ">=", "<=", "!=", "!=", "==", "≥")
SECONDS = ("s", "SECONDS", "seconds", "SECOND")
SQUARE = "GEOHASH[2](lat, lon)"


@dataclass
class _Made:
    """A query that others may read."""

    name: str
    by: list[str]


@dataclass
class _Writer:
    """Writes one text."""

    random: Random
    streams: list[str]
    made: list[_Made] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def query(self, name: str) -> str:
        """A query; it may read those made before it."""
        function = self.random.choice(LISTS) if self.chance(0.15) else None
        origins: list[_Made | str] = [*self.streams]
        if self.chance(0.3):
            origins += self.made * 2
        self.origins = origins if self.chance(0.3) else [self.random.choice(origins)]
        upon = [one for one in self.origins if isinstance(one, _Made)]
        shown = self.list_call(function) if function else self.value(2)
        clauses = [self.every(is_time=function == "OUTLIER_DETECTION")]
        by = self.by(upon)
        when = (
            [f"WHEN {self.condition(lambda: self.value(1))}"]
            if function is None and self.chance(0.35)
            else []
        )
        if not any(one.name in words for one in upon for words in (shown, *when)):
            by = [SQUARE if one == "geohash_2" else one for one in by]  # No query that it reads has named it.
        clauses += [f"BY {', '.join(by)}"] if by else []
        clauses += when
        options = ["SAMPLE 0.5"] if not upon and self.chance(0.15) else []
        if function == "OUTLIER_DETECTION":
            options.append(f"ALGORITHM pmcod AND K={self.random.randint(0, 4)} AND R={self.number()}")
        if options:
            clauses.append(f"WITH {self.random.choice([' AND ', ', ']).join(options)}")
        if function not in LISTS:
            self.made.append(_Made(name, [one if "[" not in one else "geohash_2" for one in by]))
        return f"{name} = COMPUTE {self.composed(shown, [one for one in clauses if one])}"

    def composed(self, shown: str, clauses: list[str]) -> str:
        """The clauses in any order, inside parentheses or behind them."""
        self.random.shuffle(clauses)
        if self.chance(0.6):
            return " ".join([shown, *clauses])
        inside = self.random.randint(0, len(clauses))
        return " ".join(["(", shown, *clauses[:inside], ")", *clauses[inside:]])

    def every(self, *, is_time: bool) -> str:
        kind = 0 if is_time else self.random.randrange(4)
        if kind == 3:
            return ""
        if kind == 2:
            return f"EVERY {self.random.randint(1, 5)} EVENTS"
        return f"EVERY {self.random.choice([2, 5, 7, 10])} {self.random.choice(SECONDS)}"

    def by(self, upon: list[_Made]) -> list[str]:
        """The fields that all queries that are read have, or any."""
        if not upon:
            choices = [*TEXTS, SQUARE]
        else:
            choices = [name for name in upon[0].by if all(name in one.by for one in upon)]
        return self.random.sample(choices, min(len(choices), self.random.choice([0, 0, 1, 1, 2])))

    def value(self, depth: int) -> str:
        """An expression with at least one function or metric."""
        kind = self.random.randrange(8) if depth else 0
        if kind == 5:
            return f"{self.random.choice(['ABS', 'SQR', 'SQRT'])}({self.value(depth - 1)})"
        if kind == 6:
            return f"-{self.value(0)}"
        if kind > 2:
            parts = [self.value(depth - 1), self.value(depth - 1) if self.chance(0.6) else self.number()]
            self.random.shuffle(parts)
            return f"({parts[0]} {self.random.choice('+-*/%')} {parts[1]})"
        return self.use()

    def use(self) -> str:
        origin = self.random.choice(self.origins)
        kind = self.random.randrange(8)
        if kind == 0:
            return self.metric(origin)
        if kind == 1:
            return f"{self.random.choice(['EWMA', 'PEWMA'])}[0.25]({self.seen(origin)})"
        if kind in (2, 3):
            return f"{self.random.choice(CUMULATIVE)}({self.seen(origin)})"
        if kind == 4:
            return (
                f"PERCENTILE[{self.random.choice([0, 12.5, 50, 100])}]({self.seen(origin)}, {self.window()})"
            )
        if kind == 5:
            return f"CORRELATION({self.seen(origin)}, {self.seen(origin)}, {self.window()})"
        return f"{self.random.choice(SINGLE)}({self.seen(origin)}, {self.window()})"

    def list_call(self, function: str) -> str:
        seen = self.seen(self.random.choice(self.origins))
        brackets = "" if function == "OUTLIER_DETECTION" else f"[{self.random.randint(1, 4)}]"
        return f"{function}{brackets}({seen}, {self.window()})"

    def seen(self, origin: _Made | str) -> str:
        """An argument of a function."""
        value = self.metric(origin)
        if self.chance(0.2):
            value = f"{self.random.choice(['ABS', 'SQR', 'SQRT'])}({value} {self.random.choice('+-*/%')} 2)"
        if self.chance(0.25):
            texts_of = None if isinstance(origin, _Made) else origin
            value += f" WHEN {self.condition(lambda: self.metric(origin), texts_of)}"
        return value

    def metric(self, origin: _Made | str, names: tuple[str, ...] = NUMBERS) -> str:
        if isinstance(origin, _Made):
            return f"INSIGHT {origin.name}" if self.chance(0.5) else origin.name
        if names == NUMBERS and self.chance(0.2):
            return origin
        name = self.random.choice(names)
        return f'"{name}" FROM ({origin})' if len(self.streams) > 1 or self.chance(0.5) else name

    def condition(self, left: Callable[[], str], texts_of: str | None = None) -> str:
        kind = self.random.randrange(8)
        if kind == 0:
            joined = [self.condition(left, texts_of) for _ in range(2)]
            return f" {self.random.choice(['AND', 'OR'])} ".join(joined)
        if kind == 1:
            return f"IN ({self.number()}, {self.number()})"
        if kind == 2 and texts_of:
            name = self.metric(texts_of, TEXTS)
            return f'{name} {self.random.choice(["==", "!="])} "{self.random.choice("abu")}"'
        given = f"{left()} " if self.chance(0.4) else ""
        right = left() if self.chance(0.2) else self.number()
        return f"{given}{self.random.choice(COMPARISONS)} {right}"

    def window(self) -> str:
        if self.chance(0.3):
            length = f"{self.random.randint(1, 6)} EVENTS"
        else:
            length = f"{self.random.choice([1, 5, 10, 20, 30])} {self.random.choice(SECONDS)}"
        return f"{length}, {self.random.choice([1, 3, 15])} s" if self.chance(0.15) else length

    def number(self) -> str:
        return self.random.choice(["0", "1", "2", "3", "0.5", "7.0", "1.5"])


def query_text(seed: int, queries: int = 3) -> str:
    """Return a text with up to `queries` queries, and the streams that it declares."""
    random = Random(seed)
    streams = random.sample([*STREAMS], random.randint(1, len(STREAMS)))
    writer = _Writer(random, streams)
    statements = [f"{name} {random.choice('=:')} STREAM FROM {STREAMS[name]}" for name in streams]
    statements += [writer.query(f"q{number}") for number in range(1, random.randint(1, queries) + 1)]
    return "".join(f"{one}{random.choice([';', ''])}\n" for one in statements)
