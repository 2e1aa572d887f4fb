"""Small processes under names of a mesh, and rules for a guard of the site jfk."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil

from towpath.contracts.fault_commands import RulesSet, SetRules
from towpath.contracts.faults import LoadedRule, Rule, RuleSet
from towpath.contracts.message import now
from towpath.lab.guard.keeper import Keeper, Publish
from towpath.lab.guard.report_reader import ReportReader
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, launch, stop
from towpath.tasks import end

SCOPE = "jfk"

SLEEPER = "import time\nwhile True: time.sleep(0.05)\n"

WITH_CHILD = f"""\
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {SLEEPER!r}])
{SLEEPER}"""

WRITER = """\
import pathlib, sys, time
path = pathlib.Path(sys.argv[1])
while True:
    try:
        path.write_text("x")
    except OSError:
        path.with_suffix(".refused").touch()
    time.sleep(0.01)
"""


def new_home(directory: Path) -> Home:
    return Home(directory).create().create_site(SCOPE)


@contextlib.contextmanager
def running(home: Home, name: str, script: str = SLEEPER) -> Iterator[psutil.Process]:
    """A process of the mesh, with its pid file."""
    command = (sys.executable, "-c", script, str(home.root / f"{name}.txt"))
    started = launch(ChildSpec(name=name, command=command, log=home.log(name)), home.run)
    try:
        yield psutil.Process(started.pid)
    finally:
        stop(home.run, name, grace_s=0)
        started.wait()


def loaded(
    fault: str,
    target: str,
    name: str,
    condition: str = "true",
    *,
    version: int = 1,
    every: int | None = None,
    once: bool = False,
    **parameters: Any,
) -> LoadedRule:
    rule = Rule.model_validate(
        {
            "name": f"{fault.replace('_', '-')}-{name}",
            "event": {"target": target, "name": name},
            "every": every,
            "condition": condition,
            "once": once,
            "actions": [{"fault": fault, "parameters": parameters}],
        }
    )
    return LoadedRule(rule=rule, version=version, loaded_at=now())


def tell(
    home: Home, *rules: LoadedRule, lease_s: float = 60.0, shared: dict[str, float] | None = None
) -> None:
    """Write the rule file as a keeper does."""
    told = RuleSet(
        scope=SCOPE, revision=1, expires_at=time.time() + lease_s, rules=list(rules), shared=shared or {}
    )
    path = home.fault_rules(SCOPE)
    temporary = path.with_name(".told")
    temporary.write_text(told.model_dump_json())
    temporary.replace(path)


def counts(home: Home) -> dict[str, tuple[int, int, int]]:
    """Return the counts of looks, actions and failures of each rule, by its name."""
    reader = ReportReader(home.fault_reports(SCOPE), since=0)
    reader.read()
    return {count.rule: (count.looked, count.acted, count.errors) for count in reader.counts()}


def is_paused(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def tell_keeper(
    keeper: Keeper, revision: int, lease_s: float, rules: list[LoadedRule], shared: dict[str, float]
) -> RulesSet:
    """As the injector does."""
    return await keeper.set_rules(
        SetRules(site=SCOPE, revision=revision, lease_s=lease_s, rules=rules, shared=shared)
    )


@contextlib.asynccontextmanager
async def keeping(home: Home, publish: Publish) -> AsyncIterator[Keeper]:
    """Run a keeper that watches. Stop its guard in any case."""
    keeper = Keeper(home, SCOPE, publish)
    watching = asyncio.create_task(keeper.watch())
    try:
        yield keeper
        assert not watching.done()
    finally:
        await end([watching])
        await keeper.close()
