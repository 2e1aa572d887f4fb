"""Keeps the fault rules of one scope: written where its processes look, carried out, and reported.

The agent of a site has one keeper, and the injector has one for the hub. It may be killed at any line: rules
end with their lease, the guard goes on alone, and the next keeper finds report files and guard as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from towpath.atomic_write import make_private_directory, write_atomically
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import RulesSet, SetRules
from towpath.contracts.faults import LoadedRule, RuleSet
from towpath.contracts.metrics import Metric
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.rule_actions import asked_by
from towpath.lab.guard.process import guard_name, guard_spec, held_path
from towpath.lab.guard.report_reader import ReportReader, RuleVersion
from towpath.lab.guard.targets import is_guarded
from towpath.lab.guard.usage import CPU_PERCENT, MEMORY_PERCENT, Usage
from towpath.mesh.home import Home
from towpath.processes import find, launch, stop
from towpath.tasks import check_cancelled

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.3
"""Between looks at the reports and at the guard."""

PUBLISH_S = 2.0
"""For the metrics of one look to go out. Later ones are of more use than those that are late."""

MEASURE_EVERY_S = 1.0
MEASURED_FOR_S = 10.0
"""Time after a condition last asked for the use of the machine until it is no longer measured."""

GUARD_STOP_S = 2.0
"""For a guard to release everything: it sends signals and sets limits, and waits for nothing."""

LAST_COUNTS_S = 5.0
"""The counts of ended rules are told for so long: processes report them within a second or two."""

Publish = Callable[[Metric], Awaitable[None]]


class Keeper:
    """Writes the rules of a scope down, runs its guard while there is something to guard, reads reports.

    `set_rules` and `watch` may be used at the same time; `watch` does everything that goes on by itself.
    """

    def __init__(self, home: Home, scope: str, publish: Publish) -> None:
        self._home = home
        self._scope = scope
        self._publish = publish
        self._revision = -1
        """The newest that it was told."""
        self._rules: list[LoadedRule] = []
        self._ended: dict[RuleVersion, float] = {}
        """Rules that are not loaded any more → until when their last counts are told, of the loop's clock:
        the processes report them a moment after they hear that the rules are gone."""
        self._expires_at = 0.0
        """When they end unless they are renewed, Unix seconds."""
        self._reports = ReportReader(home.fault_reports(scope), since=real_time())
        self._usage = Usage(home, scope)
        self._measured: dict[str, float] = {}
        self._asked_until = 0.0
        """The use of the machine is measured until then, seconds of the loop's clock."""
        self._measure_at = 0.0
        self._guard: subprocess.Popen[bytes] | None = None
        """Set when it was started here, and must be reaped."""
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        self._came = asyncio.Event()
        """Set when there is something to do before the next look."""

    async def set_rules(self, command: SetRules) -> RulesSet:
        """Let these rules, and no others, hold until their lease is over.

        Processes follow within half a second. Answers with the counts of these rules and of those that
        ended a moment ago. Raises `TowpathError`: fenced if the scope has newer rules, failed if these cannot
        be written.
        """
        async with self._writing:
            self._check(command.revision)
            expires_at = real_time() + command.lease_s
            told = RuleSet(
                scope=self._scope,
                revision=command.revision,
                expires_at=expires_at,
                rules=command.rules,
                shared=command.shared,
            )
            try:
                await asyncio.to_thread(_write, self._home.fault_rules(self._scope), told)
            except OSError as error:
                raise TowpathError(
                    ErrorCode.FAILED, f"the rules of {self._scope} cannot be written: {error}", field="rules"
                ) from error
        now = asyncio.get_running_loop().time()
        if _asks_for_usage(command):
            self._asked_until = now + MEASURED_FOR_S
        gone = _versions(self._rules) - _versions(command.rules)
        self._ended.update(dict.fromkeys(gone, now + LAST_COUNTS_S))
        self._rules, self._expires_at = command.rules, expires_at
        self._came.set()
        return await self._answer()

    def _check(self, revision: int) -> None:
        if revision < self._revision:
            raise TowpathError(
                ErrorCode.FENCED,
                f"{self._scope} already has newer rules",
                field="revision",
                value=revision,
                allowed=f"{self._revision} or more",
            )
        self._revision = revision

    async def watch(self) -> None:
        """Publish what is measured, and keep the guard running while it is needed, until cancelled."""
        while True:
            check_cancelled()
            self._came.clear()
            try:
                await self._look()
            except (OSError, psutil.Error, TowpathError) as error:
                log.error("rules of %s: %s", self._scope, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._came.wait()

    async def close(self) -> None:
        """End all rules of the scope and everything that was done for them. Call it before what they hold is
        to end in good order: a paused process cannot hear a signal."""
        await asyncio.to_thread(self._home.fault_rules(self._scope).unlink, missing_ok=True)
        await asyncio.to_thread(stop, self._home.run, guard_name(self._scope), grace_s=GUARD_STOP_S)
        if self._guard is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._guard.wait, GUARD_STOP_S)

    async def _answer(self) -> RulesSet:
        counted = self._counted()
        async with self._reading:
            counts = [count for count in self._reports.counts() if (count.rule, count.version) in counted]
        return RulesSet(scope=self._scope, counts=counts, measured=dict(self._measured))

    def _counted(self) -> set[RuleVersion]:
        """The rules whose counts are told: those that are loaded, and those that were a moment ago."""
        now = asyncio.get_running_loop().time()
        self._ended = {version: until for version, until in self._ended.items() if until > now}
        return _versions(self._rules) | self._ended.keys()

    async def _look(self) -> None:
        async with self._reading:
            metrics = await asyncio.to_thread(self._reports.read)
            # What counts is looked at afterwards: rules may have come meanwhile. Before the first, who knows?
            if self._expires_at:
                await asyncio.to_thread(self._reports.forget, self._counted())
        await asyncio.to_thread(self._keep_guard)
        await self._send(metrics)
        await self._measure()

    async def _send(self, metrics: list[Metric]) -> None:
        try:
            async with asyncio.timeout(PUBLISH_S):
                for metric in metrics:
                    await self._publish(metric)
        except Exception as error:  # Whatever the transport raises: a metric is not worth ending for.
            log.warning("metrics of %s were not published: %r", self._scope, error)

    async def _measure(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._asked_until:
            self._usage, self._measured = Usage(self._home, self._scope), {}
        elif now >= self._measure_at:
            self._measure_at = now + MEASURE_EVERY_S
            self._measured = await asyncio.to_thread(self._usage.measure)

    def _keep_guard(self) -> None:
        """Start the guard if there is something for it, and none runs."""
        if self._guard is not None and self._guard.poll() is not None:
            self._guard = None
        current = self._rules if real_time() < self._expires_at else []
        needed = (
            any(is_guarded(each, self._scope) for each in current)
            or held_path(self._home, self._scope).exists()
        )
        if not needed or self._guard is not None or find(self._home.run, guard_name(self._scope)):
            return
        try:
            self._guard = launch(guard_spec(self._home, self._scope), self._home.run)
        except TowpathError as error:
            if error.detail.code is not ErrorCode.BUSY:
                raise


def _versions(rules: list[LoadedRule]) -> set[RuleVersion]:
    return {(each.rule.name, each.version) for each in rules}


def _asks_for_usage(command: SetRules) -> bool:
    asked = frozenset(command.shared).union(*(asked_by(each.rule) for each in command.rules))
    return any(name.startswith((CPU_PERCENT, MEMORY_PERCENT)) for name in asked)


def _write(path: Path, told: RuleSet) -> None:
    """Write the rules for the processes of the scope, or delete the file when there are none."""
    if not told.rules:
        path.unlink(missing_ok=True)
        return
    make_private_directory(path.parent)
    write_atomically(path, told.model_dump_json(), durable=False)
