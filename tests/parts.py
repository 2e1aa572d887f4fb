"""Run the tests part by part, and print each part's duration, the slowest tests and those that failed.

python tests/parts.py                   what `make test` runs
python tests/parts.py --all             every part, as `make test-all`
python tests/parts.py containers page   the parts of these names
python tests/parts.py --list            the parts and what each proves
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

TESTS = Path(__file__).parent
SLOWEST = 15
PYTEST = (sys.executable, "-m", "pytest")

TWO_WORKERS = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
"""Tests that share a server, an engine or a mesh run in one worker (see `end_to_end/conftest.py`)."""

ONE_WORKER = ("-n", "0")
"""For tests that start four sites or a cluster: two such tests would disturb each other."""


@dataclass(frozen=True)
class Part:
    """A set of tests that run together."""

    name: str
    proves: str
    minutes: int
    """Duration on two free cores."""

    paths: tuple[str, ...]
    """Relative to `tests`."""

    options: tuple[str, ...] = TWO_WORKERS
    wrapper: tuple[str, ...] = ()
    """A command that runs the tests, such as one that provides a Docker daemon first."""

    def command(self, results: Path, options: Sequence[str]) -> list[str]:
        """Return the command that runs the part and writes its results in JUnit's format."""
        paths = [str(TESTS / path) for path in self.paths]
        return [*self.wrapper, *PYTEST, *self.options, f"--junitxml={results}", *options, *paths]


FAST = ("unit", "property", "protocol", "contract", "bench/test_benchmarks.py")
WITH_DOCKER = (str(TESTS.parent / "infra" / "docker" / "mesh.sh"), "with")

TEST = (
    Part(
        "fast",
        "logic, properties, invariants of the protocol, contracts and their exports",
        2,
        FAST,
        ("-n", "2", "--dist", "worksteal", "-p", "no:schemathesis"),
    ),
    Part(
        "promises",
        "each promise of README and pages, on real processes",
        5,
        ("end_to_end",),
        (*TWO_WORKERS, "-m", "promise", "--ignore=tests/end_to_end/containers"),
    ),
)
"""The parts that `make test` runs."""


def folder(name: str, minutes: int, proves: str, options: tuple[str, ...] = TWO_WORKERS, **more: Any) -> Part:
    """Return the part of a folder of `end_to_end`."""
    return Part(name, proves, minutes, (f"end_to_end/{name}",), options, **more)


REST = (
    folder("processes", 3, "supervisor, guard and load as real processes that are killed"),
    folder("servers", 8, "streams, links, brokers and stores on real servers that are killed"),
    folder("control", 8, "coordinator, monitor and REST, with agents that run no Spark"),
    folder("spark", 4, "operators, windows, checkpoints and telemetry on a Spark session"),
    folder("mesh", 10, "whole meshes: commands, pipelines, user code, metrics, traces"),
    folder("page", 4, "the live page in a browser"),
    folder("laboratory", 9, "fault rules, scenarios and the guard", ONE_WORKER),
    folder("demonstrations", 28, "`demo-edge`; all other demonstrations, small", ONE_WORKER),
    folder("documents", 30, "every command that README and pages show", ONE_WORKER),
    folder("cluster", 6, "a site whose tasks run on a Spark cluster; Spark jobs on devices", ONE_WORKER),
    folder("chaos", 10, "a sample of the drill; a demonstration whose processes are killed", ONE_WORKER),
    folder(
        "durability", 20, "power cuts, full disks, wrong clocks, sleep; many moves under kills", ONE_WORKER
    ),
    folder("containers", 11, "sites, faults and topologies as containers", ONE_WORKER, wrapper=WITH_DOCKER),
    folder("security", 2, "what someone tries who has all keys of a site: refused, and told"),
    folder(
        "machines", 10, "`make two-machines`: jobs and keys across machines, one behind a NAT", ONE_WORKER
    ),
    folder("supply", 1, "locked packages against known vulnerabilities, where a database answers; the wheel"),
    Part("benchmarks", "what the benchmarks compute from what they measure", 1, ("bench",), ONE_WORKER),
)
"""The parts that only `make test-all` runs."""


def row(part: Part) -> str:
    """Return the part's row in the table of `tests/README.md`."""
    return f"| `{part.name}` | {part.proves} | {part.minutes} |"


@dataclass(frozen=True)
class TestResult:
    """One test that ran."""

    seconds: float
    name: str
    failure: str | None
    """The first line of what was wrong, or None."""


@dataclass(frozen=True)
class Outcome:
    """The end of a part: exit code, duration and tests."""

    part: Part
    code: int
    seconds: float
    tests: list[TestResult]


def run(part: Part, options: Sequence[str]) -> Outcome:
    """Run a part. Pass an interrupt on to it, and wait until it has stopped what it started."""
    print(f"\n=== {part.name}: {part.proves} ===", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.xml"
        begun = time.monotonic()
        # A process group of its own: a terminal's Ctrl-C would reach it twice, and cut its clean-up short.
        process = subprocess.Popen(part.command(results, options), cwd=TESTS.parent, process_group=0)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise
        return Outcome(part, code, time.monotonic() - begun, read_tests(results))


def read_tests(results: Path) -> list[TestResult]:
    """Return the tests that ran; none if the part wrote no results."""
    if not results.exists():
        return []
    return [
        TestResult(float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}", failure(case))
        for case in ElementTree.parse(results).iter("testcase")
    ]


def failure(case: ElementTree.Element) -> str | None:
    """Return the first line of what a test failed with, or None if it did not."""
    for tag in ("failure", "error"):
        if (found := case.find(tag)) is not None:
            return (found.get("message") or found.text or tag).strip().partition("\n")[0]
    return None


def report(outcomes: Sequence[Outcome], interrupted: bool) -> None:
    """Print each part's duration, the slowest of all tests, and at the end those that failed."""
    print(f"\n{'part':<16}{'tests':>8}{'seconds':>10}  outcome")
    for outcome in outcomes:
        ended = "passed" if outcome.code == 0 else f"FAILED (exit {outcome.code})"
        print(f"{outcome.part.name:<16}{len(outcome.tests):>8}{outcome.seconds:>10.0f}  {ended}")
    total = sum(outcome.seconds for outcome in outcomes)
    tests = [test for outcome in outcomes for test in outcome.tests]
    print(f"{'all':<16}{len(tests):>8}{total:>10.0f}  {'interrupted' if interrupted else ''}")
    print(f"\nThe {SLOWEST} slowest tests, in seconds, with what they set up:")
    for test in sorted(tests, key=lambda test: test.seconds, reverse=True)[:SLOWEST]:
        print(f"{test.seconds:8.1f}  {test.name}")
    # At the end: a log that is cut short keeps its last lines.
    if failed := [test for test in tests if test.failure]:
        print(f"\n{len(failed)} failed:")
    for test in failed:
        print(f"  {test.name}\n      {test.failure}")


def chosen(arguments: argparse.Namespace) -> list[Part]:
    """Return the parts of these names. End the program if one does not exist."""
    every = {part.name: part for part in (*TEST, *REST)}
    if unknown := [name for name in arguments.parts if name not in every]:
        sys.exit(f"there is no part {unknown[0]!r}; there are: {', '.join(every)}")
    if arguments.parts:
        return [every[name] for name in arguments.parts]
    return list(every.values()) if arguments.all else list(TEST)


def main() -> int:
    """Run the parts that are asked for. Return 1 if a part failed, 130 after an interrupt."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--all", action="store_true", help="every part")
    parser.add_argument("--list", action="store_true", help="print the parts and what each proves")
    arguments, options = parser.parse_known_args()
    parts = chosen(arguments)
    if arguments.list:
        for part in (*TEST, *REST):
            print(f"{part.name:<16}{part.minutes:>4} min  {part.proves}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes: list[Outcome] = []
    try:
        for part in parts:
            outcomes.append(run(part, options))
    except KeyboardInterrupt:
        report(outcomes, interrupted=True)
        return 130
    report(outcomes, interrupted=False)
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
