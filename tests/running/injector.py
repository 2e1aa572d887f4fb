"""An injector as a process on real servers, with agents that follow it, and processes that rules affect."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from running import fault_victim
from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.fault_commands import ListRules, LoadRules, RuleEnded, RuleList, UnloadRules
from towpath.contracts.faults import Rule
from towpath.contracts.message import Command
from towpath.lab.extension import at_site
from towpath.lab.injector.record import InjectorRecord
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, find, launch, stop

VICTIM, SLEEPER, WRITER = "jfk-victim", "jfk-sleeper", "jfk-writer"


@dataclass
class Trial:
    """A mesh, a client, and an injector that can be killed."""

    mesh: Mesh
    client: Bus
    agents: dict[str, AsyncExitStack] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    ended: list[RuleEnded] = field(default_factory=list)

    @property
    def home(self) -> Home:
        return self.mesh.home

    async def start_injector(self) -> None:
        command = [sys.executable, "-m", "towpath.lab.injector", "--home", str(self.home.root)]
        environment = {**os.environ, **self.home.fault_environment("hub", "injector")}
        with self.home.log("injector").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, env=environment
            )

    async def end_injector(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), WITHIN_S)

    async def clear(self) -> None:
        """Remove all rules: an injector and agents of all sites run, and no fault acts."""
        # A new injector tells which rules of the one before it have ended, once their processes know.
        loaded: set[str] = set()
        if self.process is None or self.process.returncode is not None:
            earlier = await InjectorRecord(self.home.root / "injector.json").read()
            loaded |= {each.rule for each in earlier.loaded}
            self.ended.clear()
            await self.start_injector()
        for site in self.mesh.state.sites.keys() - self.agents.keys():
            await self.start_agent(site)
        loaded |= {view.rule.name for view in (await self.ask(ListRules())).rules}
        await self.unload()
        await eventually(lambda: loaded <= {event.rule for event in self.ended})
        self.ended.clear()
        await eventually(lambda: self.sees() == fault_victim.UNTOUCHED)

    async def start_agent(self, site: str) -> None:
        """Handle rules as an agent does, in this process."""
        access = self.mesh.state.sites[site]
        stack = AsyncExitStack()
        connecting = Bus.connect(
            access.nats_url, access.login("agent").user, access.login("agent").password, name=site
        )
        bus = await stack.enter_async_context(await connecting)
        await stack.enter_async_context(at_site(self.home.root, site, bus))
        self.agents[site] = stack

    async def end_agent(self, site: str) -> None:
        await self.agents.pop(site).aclose()

    async def ask(self, command: Command[Any]) -> Any:
        return await self.client.request(command, deadline_s=WITHIN_S, attempt_s=8)

    async def load(self, *rules: dict[str, Any], lease_s: float | None = None) -> RuleList:
        return await self.ask(LoadRules(rules=[rule(**each) for each in rules], lease_s=lease_s))

    async def unload(self, *names: str) -> RuleList:
        return await self.ask(UnloadRules(names=list(names) or None))

    async def refusal(self, command: Command[Any]) -> TowpathError:
        with pytest.raises(TowpathError) as refused:
            await self.ask(command)
        return refused.value

    def sees(self) -> dict[str, Any]:
        """Return what the victim printed last."""
        with self.home.log(VICTIM).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 1_000))
            lines = log.read().splitlines(keepends=True)
        whole = [line for line in lines if line.startswith(b"{") and line.endswith(b"}\n")]
        return json.loads(whole[-1]) if whole else {}

    def process_of(self, name: str) -> psutil.Process:
        record = find(self.home.run, name)
        assert record is not None
        assert record.process is not None
        return record.process


@asynccontextmanager
async def running_injector(mesh: Mesh) -> AsyncIterator[Trial]:
    """Run an injector without rules, agents of both sites, and victims. Stop them all in the end."""
    (mesh.home.root / "injector.json").unlink(missing_ok=True)
    user = mesh.state.operator
    async with await Bus.connect(mesh.state.hub_url, user.user, user.password, name="client") as client:
        trial = Trial(mesh, client)
        try:
            for name, script in _to_hit().items():
                spec = ChildSpec(
                    name=name,
                    command=(sys.executable, *script),
                    log=mesh.home.log(name),
                    environment=mesh.home.fault_environment("jfk", name),
                )
                await asyncio.to_thread(launch, spec, mesh.home.run)
            for site in mesh.state.sites:
                await trial.start_agent(site)

            async def note(event: RuleEnded) -> None:
                trial.ended.append(event)

            await client.subscribe(RuleEnded, note)
            await trial.clear()
            yield trial
        finally:
            await trial.end_injector(signal.SIGKILL)
            for site in list(trial.agents):
                await trial.end_agent(site)
            for name in (*_to_hit(), "hub-guard", "jfk-guard", "lga-guard"):
                await asyncio.to_thread(stop, mesh.home.run, name, grace_s=1)


def _to_hit() -> dict[str, tuple[str, ...]]:
    sleep = ("-c", "import time; time.sleep(600)")
    return {VICTIM: (fault_victim.__file__,), SLEEPER: sleep, WRITER: sleep}


def rule(name: str, event: dict[str, Any], fault: str, **changes: Any) -> Rule:
    parameters = changes.pop("parameters", {})
    actions = [{"fault": fault, "parameters": parameters}]
    return Rule.model_validate({"name": name, "event": event, "actions": actions, **changes})
