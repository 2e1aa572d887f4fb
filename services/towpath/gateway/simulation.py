"""Many gateways on one machine, for measurements: `python -m towpath.gateway.simulation --config FILE`.

Each simulated gateway has a session, a name and a directory of its own, and installs packages as a real one
does. Several share a process: `--per-process 1` gives each its own. With `--inside`, applications of a
gateway run in its process, too, and not in one of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

import msgspec

from towpath import tasks
from towpath.atomic_write import make_private_directory
from towpath.gateway.app import Gateway
from towpath.gateway.inside_worker import InsideWorker
from towpath.gateway.parent_death import end_with_parent
from towpath.gateway.settings import GatewaySettings, read_settings
from towpath.gateway.worker_process import WorkerProcess
from towpath.gateways.refusal import Refusal

LOOK_EVERY_S = 0.1
STOP_S = 20.0
"""Time for the gateways of a process to say farewell."""


def main(arguments: list[str] | None = None) -> int:
    """Run simulated gateways until SIGTERM or Ctrl-C. Return the exit code: 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="towpath gateway simulate", description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, help="settings; each device gets a number behind"
    )
    parser.add_argument("--count", type=int, default=20, help="number of gateways")
    parser.add_argument("--per-process", type=int, default=25, help="gateways in one process")
    parser.add_argument("--inside", action="store_true", help="run applications in the gateways' processes")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)  # Of a process that this one starts.
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings(options.config)
        if options.first is not None:
            end_with_parent()
            names = numbered(settings.device, options.first, options.count)
            return asyncio.run(_run(settings, names, inside=options.inside))
        return asyncio.run(_supervise(options.config, options.count, options.per_process, options.inside))
    except (Refusal, OSError) as error:
        print(f"towpath gateway: {error}", file=sys.stderr)
        return 2


def numbered(device: str, first: int, count: int) -> list[str]:
    """Return the names of simulated gateways: `pi` gives `pi-001`, `pi-002` and so on."""
    return [f"{device}-{number:03d}" for number in range(first, first + count)]


async def _supervise(config: Path, count: int, per_process: int, inside: bool) -> int:
    stop = _stop_event()
    processes: list[asyncio.subprocess.Process] = []
    waiting: list[asyncio.Task[bytes]] = []
    try:
        for first in range(1, count + 1, per_process):
            some = min(per_process, count + 1 - first)
            command = [sys.executable, "-m", "towpath.gateway.simulation", "--config", str(config)]
            command += ["--count", str(some), "--first", str(first), *(["--inside"] if inside else [])]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert process.stdout is not None
            processes.append(process)
            waiting.append(asyncio.create_task(process.stdout.readline()))
        ended = [asyncio.create_task(process.wait()) for process in processes]
        stopping = asyncio.create_task(stop.wait())
        online = asyncio.gather(*waiting)
        await asyncio.wait({stopping, online, *ended}, return_when=asyncio.FIRST_COMPLETED)
        if online.done() and not any(each.done() for each in ended):
            print(f"{count} gateways are online in {len(processes)} processes", flush=True)
            await asyncio.wait({stopping, *ended}, return_when=asyncio.FIRST_COMPLETED)
        failed = not stop.is_set()
        if failed:
            codes = [process.returncode for process in processes if process.returncode is not None]
            told = f"a process of simulated gateways has ended with code {codes[0] if codes else 'unknown'}"
            print(f"towpath gateway: {told}", file=sys.stderr)
        await _terminate(processes)
        await tasks.end([stopping, online, *ended])
        return int(failed)
    finally:
        await _terminate(processes)
        await tasks.end(waiting)


async def _terminate(processes: list[asyncio.subprocess.Process]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_S):
            for process in processes:
                await process.wait()
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _run(settings: GatewaySettings, names: list[str], *, inside: bool) -> int:
    stop = _stop_event()
    gateways = [_gateway(settings, name, inside=inside) for name in names]
    running = [asyncio.create_task(gateway.run(stop)) for gateway in gateways]
    stopping = asyncio.create_task(stop.wait())
    try:
        while not (stop.is_set() or all(gateway.is_connected for gateway in gateways)):
            await asyncio.wait(
                {stopping, *running}, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            if any(each.done() for each in running):
                break
        print("online", flush=True)
        await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.gather(*running)
        return 0
    finally:
        await tasks.end([stopping, *running])
        for gateway in gateways:
            gateway.results.close()


def _gateway(settings: GatewaySettings, name: str, *, inside: bool) -> Gateway:
    directory = make_private_directory(Path(settings.directory) / name)
    own = msgspec.structs.replace(settings, device=name, directory=str(directory))
    return Gateway(own, directory, InsideWorker.start if inside else WorkerProcess.start)


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


if __name__ == "__main__":
    sys.exit(main())
