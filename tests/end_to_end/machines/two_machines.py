"""Show what happens across machines: a job moves between two of them, keys are replaced and stolen.

`make two-machines` runs it. The machines are namespaces, see `running.machines`: that of the hub with a site
of its own, and two that join, each with its bundle alone. One of these is behind a NAT.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import nats.errors
import redis.asyncio
import redis.exceptions

from running.command_line import STEP_S
from running.flow import PER_SECOND, flowing, job, move, numbers
from running.machines import (
    ADDRESSES,
    BEHIND_NAT,
    HIDDEN_ADDRESS,
    HOME,
    WORK,
    Machine,
    connect,
    contained,
    missing,
)
from running.raw_leaf import RawLeaf, raw_leaf
from running.waiting import eventually, until
from towpath.bus import Bus
from towpath.contracts.commands import (
    DeployJob,
    ListOperations,
    ListSites,
    OperationKind,
    OperationState,
    StrategyName,
)
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.site import SiteState
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import TlsFiles, client_context
from towpath.processes import find
from towpath.streams.pages import last_serial

HUB, ALPHA, BETA = (Machine(name) for name in ("hub", "alpha", BEHIND_NAT))
OFFICE = "office"
"""The site on the hub's machine. It keeps the results."""

JOB, TOPIC, OUTPUT = "survey", "site/survey", "OUT_survey"
MESH = f'listen = "{ADDRESSES["hub"]}"\n[[sites]]\nname = "{OFFICE}"\n'
CONNECT_S = 3.0


def main() -> int:
    """Return 0 if every step went well and nothing was lost or came twice, 1 if not, 2 if it cannot run."""
    if sys.argv[1:] == ["device"]:
        return asyncio.run(device())
    if sys.argv[1:] == ["inside"]:
        return inside()
    why = missing()
    if why is not None:
        print(f"two-machines: {why}", file=sys.stderr)
        return 2
    return contained([sys.executable, __file__, "inside"])


def inside() -> int:
    """Run all of it, within namespaces of its own. Keep the logs if it fails."""
    signal.signal(signal.SIGINT, interrupt)
    logging.disable()  # The clients' complaints while the hub is away.
    try:
        return asyncio.run(story())
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except Exception as error:
        kept = tempfile.mkdtemp(prefix="towpath-two-machines-")
        for machine in (HUB, ALPHA, BETA):
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(machine.directory / "logs", Path(kept) / machine.name)
        say(f"FAILED: {type(error).__name__}: {error}")
        say(f"the logs are in {kept}")
        return 1


def interrupt(*_: object) -> None:
    """End at once. asyncio's own handler would wait for the end of the command under way."""
    raise KeyboardInterrupt


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.monotonic() - BEGUN:5.0f} s  {text}", flush=True)


BEGUN = time.monotonic()


async def story() -> int:
    """Do everything, and return the exit code."""
    connect()
    begin_mesh()
    check_nat()
    async with hub_bus() as bus:
        with devices() as publishing:
            await deploy(bus)
            await hand_over(bus, "beta")
            await hand_over_without_hub(bus, "alpha")
            await rotate(bus)
            await revoke(bus)
            sent = stop(publishing)
        return await verdict(bus, sent)


def begin_mesh() -> None:
    """Start the mesh of the hub, and let both machines join."""
    router = ADDRESSES["router"]
    say(f"hub at {ADDRESSES['hub']}, alpha at {ADDRESSES['alpha']}, beta behind the NAT of {router}")
    (HUB.directory / "mesh.toml").write_text(MESH)
    HUB.towpath("up", "--config", "mesh.toml")
    say("the mesh is up, and encrypts")
    for machine in (ALPHA, BETA):
        HUB.towpath("site", "add", machine.name, "--hub", ADDRESSES["hub"])
        redeem(machine)
        say(f"{machine.name} has joined with its bundle")


def redeem(machine: Machine) -> None:
    """Carry the bundle that was just written to its machine, and join there."""
    name = f"{machine.name}.bundle"
    shutil.move(HUB.directory / name, machine.directory / name)
    machine.towpath("join", name)


def redeem_half(machine: Machine) -> None:
    """Carry a bundle to its machine, and kill the command there when it has made keys and asks the hub."""
    name = f"{machine.name}.bundle"
    shutil.copy(HUB.directory / name, machine.directory / name)
    joining = machine.start("-m", "towpath.cli", "--home", str(HOME), "join", name, stdout=subprocess.DEVNULL)
    until(lambda: state_of(machine).renewed is not None or joining.poll() is not None)
    joining.kill()
    joining.wait()


def check_nat() -> None:
    """Make sure that no connection can be made to the machine behind the NAT."""
    program = (
        "import socket, sys\n"
        "for host in sys.argv[2:]:\n"
        "    try: socket.create_connection((host, int(sys.argv[1])), 2).close()\n"
        "    except OSError: continue\n"
        "    sys.exit(f'{host} is reached')"
    )
    port = state_of(BETA).site("beta").mqtt_port
    asked = HUB.start("-c", program, str(port), HIDDEN_ADDRESS, ADDRESSES["router"])
    assert asked.wait(STEP_S) == 0
    say("no connection can be made to beta")


def state_of(machine: Machine) -> MeshState:
    return MeshState.load(Home(machine.directory))


def here(machine_path: str, directory: Path) -> str:
    """Return the path of a file of a machine as this process sees it."""
    return str(directory / Path(machine_path).relative_to(HOME))


@asynccontextmanager
async def hub_bus() -> AsyncIterator[Bus]:
    """Connect to the hub as operator."""
    state = state_of(HUB)
    check = client_context(str(Home(HUB.directory).certificates / "authority.pem"))
    user = state.operator
    async with await Bus.connect(
        state.hub_url, user.user, user.password, name="two machines", within_s=STEP_S, tls=check
    ) as bus:
        yield bus


@contextlib.contextmanager
def devices():
    """Let a device at alpha publish."""
    publishing = ALPHA.start(__file__, "device", stdout=subprocess.PIPE)
    try:
        yield publishing
    finally:
        publishing.kill()


async def device() -> int:
    """Publish on the machine where this runs until SIGTERM. Print how many events were sent."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with flowing(MeshState.load(Home(HOME)), TOPIC, "alpha") as load:
        await ended.wait()
    print(load.sent, flush=True)
    return 0


def stop(publishing: subprocess.Popen[str]) -> int:
    """Stop the device, and return how many events it sent."""
    assert publishing.poll() is None, "the device was disconnected"
    publishing.terminate()
    out, _ = publishing.communicate(timeout=STEP_S)
    say(f"the device has sent {int(out)} events")
    return int(out)


async def deploy(bus: Bus) -> None:
    """Start the job at alpha, where the events are stored. Its results are kept at the office."""
    spec = job(JOB, TOPIC, JOB, None, site="alpha", inputs=[{"site": "alpha", "topic": TOPIC}])
    spec["output"]["site"] = OFFICE
    await eventually(lambda: are_up(bus))
    await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
    await results_flow(bus)
    say("the job runs at alpha, on what a device publishes there")


async def are_up(bus: Bus) -> bool:
    sites = (await bus.request(ListSites(), deadline_s=STEP_S)).sites
    return {site.site for site in sites if site.state is SiteState.UP} >= {OFFICE, "alpha", "beta"}


async def results_flow(bus: Bus) -> None:
    """Return when results of a second have come from now on."""
    before = await results(bus)

    async def more() -> bool:
        return await results(bus) >= before + PER_SECOND

    await eventually(more)


async def results(bus: Bus) -> int:
    try:
        return await last_serial(bus.connection, OFFICE, OUTPUT)
    except (TowpathError, nats.errors.Error, TimeoutError):
        return 0  # The hub is restarting.


async def hand_over(bus: Bus, to: str) -> None:
    """Move the running job."""
    await move(bus, JOB, to, StrategyName.HANDOVER)
    await results_flow(bus)
    say(f"the job was handed over to {to}")


async def hand_over_without_hub(bus: Bus, to: str) -> None:
    """Move the job while the hub's server is killed and comes back."""
    moving = asyncio.create_task(move(bus, JOB, to, StrategyName.HANDOVER))
    await eventually(lambda: is_on_its_way(bus))
    server = find(Home(HUB.directory).run, "hub")
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    await moving
    await results_flow(bus)
    say(f"the job was handed over to {to}, while the hub's server was killed and restarted")


async def is_on_its_way(bus: Bus) -> bool:
    answer = await bus.request(ListOperations(kind=OperationKind.MIGRATE, limit=1), deadline_s=STEP_S)
    return any(each.state is OperationState.RUNNING for each in answer.operations)


async def rotate(bus: Bus) -> None:
    """Replace the keys of all sites while the job runs at alpha."""
    engine = find(Home(ALPHA.directory).run, "alpha-engine")
    for machine, site in ((ALPHA, "alpha"), (BETA, "beta"), (HUB, OFFICE)):
        old = Stolen.from_(machine, site)
        await eventually(old.is_let_in)
        HUB.towpath("site", "rotate-keys", site)
        if machine is not HUB:
            await eventually(old.is_let_in)  # As soon as the hub's server has restarted.
            redeem_half(machine)
            redeem(machine)
        await eventually(old.is_shut_out)
        await results_flow(bus)
        say(f"{site} has new keys; the old ones open nothing, and results go on")
    assert find(Home(ALPHA.directory).run, "alpha-engine") == engine, "the engine was restarted"
    say("alpha's engine was not restarted")


async def revoke(bus: Bus) -> None:
    """Shut out a thief of the keys of beta: once by new keys, once by taking the site out."""
    await hand_over(bus, "beta")
    await hand_over(bus, "alpha")
    stolen = Stolen.from_(BETA, "beta")
    HUB.towpath("site", "rotate-keys", "beta")
    redeem(BETA)
    await eventually(stolen.is_shut_out)
    say("beta's keys were stolen, and replaced: those open nothing")
    stolen = Stolen.from_(BETA, "beta")
    await eventually(stolen.is_let_in)
    async with stolen.leaf() as link:
        HUB.towpath("site", "remove", "beta")
        await eventually(stolen.is_shut_out)
        await link.settled()
        assert link.reader.at_eof(), "a link that was open is cut"
    await results_flow(bus)
    say("beta's keys were stolen again, and beta removed: those open nothing; the job at alpha goes on")


DOORS = ("leaf", "redis")
"""Servers beside the hub that the keys of a site open."""


class Stolen:
    """A copy of all files of a site's machine, in the hands of someone who uses them without our programs."""

    def __init__(self, directory: Path, site: str) -> None:
        self.site = site
        self.state = MeshState.load(Home(directory))
        self.access = self.state.site(site)
        assert self.access.tls is not None
        file = here(self.access.tls.certificate_file, directory)
        authority = str(Home(directory).certificates / "authority.pem")
        self.tls = TlsFiles(certificate_file=file, key_file=file, ca_file=authority)

    @classmethod
    def from_(cls, machine: Machine, site: str) -> Stolen:
        """Copy the keys of a machine."""
        directory = Path(tempfile.mkdtemp(dir=WORK))
        shutil.copy(Home(machine.directory).state, directory)
        shutil.copytree(Home(machine.directory).certificates, Home(directory).certificates)
        return cls(directory, site)

    def _context(self) -> ssl.SSLContext:
        context = client_context(self.tls.ca_file)
        context.load_cert_chain(self.tls.certificate_file)
        return context

    async def is_shut_out(self) -> bool:
        """Tell if nothing opens. The hub answers, so it is not merely away."""
        return not await self.opens() and await self._hub_answers()

    async def opens(self) -> list[str]:
        """Return the doors that the keys open."""
        tried = {"leaf": await self._leaf(), "redis": await self._redis()}
        for login in (self.access.leaf, self.access.redis, *self.access.logins.values()):
            assert not await self._client(login.user, login.password), f"{login.user} is no client of the hub"
        return [door for door, opened in tried.items() if opened]

    async def is_let_in(self) -> bool:
        """Tell if the keys open all that they are for."""
        return await self.opens() == [*DOORS]

    def leaf(self) -> contextlib.AbstractAsyncContextManager[RawLeaf]:
        """Connect as the site's server would."""
        return raw_leaf(self.state, self.site, ADDRESSES["hub"], self._context())

    async def _leaf(self) -> bool:
        try:
            async with self.leaf() as leaf:
                return leaf.refusal is None and not leaf.reader.at_eof()
        except (OSError, TimeoutError):
            return False

    async def _redis(self) -> bool:
        login = self.access.redis
        client = redis.asyncio.Redis(
            host=ADDRESSES["hub"],
            port=self.state.spec.redis_port,
            username=login.user,
            password=login.password,
            socket_timeout=CONNECT_S,
            socket_connect_timeout=CONNECT_S,
            **self.tls.redis_options(),
        )
        try:
            return bool(await client.ping())  # type: ignore[misc]
        except (redis.exceptions.RedisError, OSError):
            return False
        finally:
            await client.aclose()

    async def _client(self, user: str, password: str) -> bool:
        async def ignored(_: Exception) -> None: ...

        try:
            connection = await nats.connect(
                self.state.hub_url,
                user=user,
                password=password,
                tls=self._context(),
                tls_handshake_first=True,
                allow_reconnect=False,
                connect_timeout=CONNECT_S,
                error_cb=ignored,
            )
        except (nats.errors.Error, OSError, TimeoutError):
            return False
        await connection.close()
        return True

    async def _hub_answers(self) -> bool:
        try:
            async with hub_bus():
                return True
        except TowpathError:
            return False


async def verdict(bus: Bus, sent: int) -> int:
    """Compare what was sent with the results, and print the verdict. Return the exit code."""

    async def complete() -> bool:
        return await results(bus) >= sent

    with contextlib.suppress(AssertionError):
        await eventually(complete)
    counted = Counter(await numbers(bus, OUTPUT, OFFICE))
    lost = sum(number not in counted for number in range(sent))
    twice = sum(count > 1 for count in counted.values())
    say(f"{'PASSED' if not lost + twice else 'FAILED'}: of {sent} events {lost} lost, {twice} twice")
    return int(bool(lost + twice))


if __name__ == "__main__":
    sys.exit(main())
