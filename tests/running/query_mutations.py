"""Break query texts in any way. Parsing and checking answer with a meaning or a `TowpathError`, nothing else.

python tests/running/query_mutations.py --texts 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from running.query_texts import query_text
from towpath.contracts.errors import TowpathError
from towpath.queries.checking import check
from towpath.queries.parsing import parse

EXAMPLES = (Path(__file__).parents[1] / "unit" / "streamsight_examples.txt").read_text(encoding="utf-8")
TOKENS = re.compile(r'"[^"\n]*"|#[^\n]*|\w+|\s+|.', re.DOTALL)
WORDS = (
    "COMPUTE STREAM FROM BY EVERY WHEN WITH AND OR IN INSIGHT compute when AVG COUNT PERCENTILE[50] TOP_K[3]",
    "GEOHASH OUTLIER_DETECTION RUNNING_MEAN EWMA[0.5] ABS CORRELATION q1 q2 q3 s1 s2 x y k value topic sites",
    "SAMPLE ALGORITHM K R pmcod MAX_ERROR s m h ms SECONDS EVENTS M D",
    "'é 中 ٣ \x00 \n \t \u2028 \ud800 $ @ ~ \\",
    '"x" "" "%" "{a}" 0 1 -1 0.5 1e308 1e999 10 99999999999999999999 { } . .. ! & | " # /* */',
    "= : ; , ( ) [ ] + - * / % > < == != >= <= ≥ ≤ ",
)
VOCABULARY = " ".join(WORDS).split(" ")
PIECES = (
    "(",
    "-",
    "((",
    "x+",
    "+1",
    "+ x * 2",
    "1*",
    "-(",
    "AVG(",
    "AND x > 1 ",
    "s = ",
    ";",
    '"',
    "/*",
    "#",
    "[",
    "9",
    "a",
    "\n",
    "=",
    "x,",
)


def broken_texts(seed: int) -> Iterator[str]:
    """Yield texts without end, most of them a step or some away from one that the language accepts."""
    random = Random(seed)
    examples = re.split(r"(?m)^# F.*$", EXAMPLES)
    while True:
        base = query_text(random.getrandbits(32)) if random.random() < 0.5 else random.choice(examples)
        for _ in range(40):
            kind = random.random()
            if kind < 0.005:
                yield _long(random)
            elif kind < 0.03:
                yield "".join(random.choices(VOCABULARY, k=random.randrange(60)))
            elif kind < 0.3:
                yield "".join(_changed([*base], [*"".join(VOCABULARY)], random))
            else:
                yield "".join(_changed(TOKENS.findall(base), VOCABULARY, random))


def _changed(parts: list[str], others: list[str] | str, random: Random) -> list[str]:
    """The parts with one to four of them deleted, inserted, swapped, repeated or replaced."""
    for _ in range(random.choice([1, 1, 2, 3, 4])):
        if not parts:
            return parts
        at, other = random.randrange(len(parts)), random.randrange(len(parts))
        match random.randrange(6):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, random.choice(others))
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at:at] = parts[at : at + random.randrange(1, 12)]
            case 4:
                parts[at] = random.choice(others)
            case _:
                del parts[at : at + random.randrange(1, 30)]
    return parts


def _long(random: Random) -> str:
    """Much of the same: nesting, rows of operators, long names and numbers, up to beyond the limit."""
    piece = random.choice(PIECES)
    count = random.choice([10, 60, 1_000, 5_000, 20_000])
    begin = random.choice(["", "q = COMPUTE ", "q = COMPUTE AVG(x WHEN ", "s = STREAM FROM topic(", "# c\n"])
    if random.random() < 0.3:
        opening, depth = random.choice(["(", "ABS(", "-(", "AVG("]), random.choice([5, 20, 49, 200])
        return f"{begin}{opening * depth}x{(random.choice(PIECES) * random.randrange(9) + ')') * depth}"
    return begin + piece * count + random.choice(["", "x", ")" * count, "1 s)"])


def answered(text: str) -> str:
    """Return `meaning`, `refused by checking` or `refused by parsing`. Anything else is raised."""
    try:
        tree = parse(text)
    except TowpathError as error:
        return f"refused by parsing{_without_place(error)}"
    try:
        check(tree, {"namespace": "n", "podName": "p", "node-id": "x"})
    except TowpathError as error:
        return f"refused by checking{_without_place(error)}"
    return "meaning"


def _without_place(error: TowpathError) -> str:
    return "" if re.match(r"line \d+, column \d+$", str(error.detail.field)) else ", without a place"


def main() -> None:
    """Try many texts, and print how they were answered, and the longest time one took."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--texts", type=int, default=1_000_000)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    found, longest = Counter[str](), 0.0
    for _, text in zip(range(given.texts), broken_texts(given.seed), strict=False):
        begin = time.thread_time()
        try:
            found[answered(text)] += 1
        except BaseException as error:
            found[f"FAILED with {type(error).__name__}"] += 1
            print(repr(error)[:300], repr(text[:3_000]), flush=True)
        longest = max(longest, time.thread_time() - begin)
    print(f"seed {given.seed}: {dict(found)}, at most {longest:.2f} s of CPU each", flush=True)


if __name__ == "__main__":
    main()
