"""The engine's wiring: session, queries, command handlers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from towpath.bus import Bus
from towpath.contracts.engine import SHARED_ENGINE
from towpath.engine.masters import Executors
from towpath.engine.measures import keep_sampling
from towpath.engine.planners import Planners
from towpath.engine.queries import Queries
from towpath.engine.session import start_session
from towpath.engine.settings import EngineSettings
from towpath.engine.warm_up import warm_up
from towpath.engines.binder import JOB_WAITS
from towpath.engines.commands import serve
from towpath.engines.spark.binder import is_cluster
from towpath.streams.sink import SinkConnection
from towpath.tasks import end
from towpath.telemetry.tracing import start_tracing

log = logging.getLogger(__name__)

HEARTBEAT_S = 2.0
"""Between two looks whether JVM and executors are alive. Without them the process is useless, and ends."""


async def run(settings: EngineSettings) -> None:
    """Run the engine until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Halting and starting a job blocks a thread for seconds, and many jobs may do so at once.
    loop.set_default_executor(ThreadPoolExecutor(32, thread_name_prefix="spark"))
    planners = Planners(settings.directory)
    planners.start()
    on_cluster = is_cluster(settings.spec)
    try:
        session = await asyncio.to_thread(start_session, settings, str(planners.launcher))
        if JOB_WAITS not in os.environ:
            await asyncio.to_thread(warm_up, session, read_ahead=not on_cluster)
    except Exception:
        # Here, because the agent may end the process before Python would have told.
        log.exception("Spark does not start")
        raise
    connection = SinkConnection(settings.login, settings.site)
    connection.start()
    queries = Queries(session, settings, connection)
    name = f"engine-{settings.site}" if settings.job is None else f"engine-{settings.site}-{settings.job}"
    login = settings.login
    async with await Bus.connect(login.url, login.user, login.password, name=name) as bus:
        bus.ship(start_tracing("engine", settings.site))
        await serve(bus, settings.site, queries, settings.job or SHARED_ENGINE)
        log.info("engine of %s is ready", settings.site)
        works = (_exit_without_spark(session, on_cluster=on_cluster), keep_sampling(queries.sample))
        tasks = [asyncio.create_task(work) for work in works]
        await stop.wait()
        await end(tasks)
        await queries.close()
    await asyncio.to_thread(connection.close)
    await asyncio.to_thread(session.stop)
    await asyncio.to_thread(planners.close)


async def _exit_without_spark(session: SparkSession, *, on_cluster: bool) -> None:
    executors = Executors()
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        try:
            stopped = await asyncio.to_thread(_is_stopped, session)
            count = await asyncio.to_thread(_executor_count, session) if on_cluster else 1
        except Exception:
            stopped, count = True, 0
        if stopped:
            log.error("the JVM has gone; leaving so that the agent starts a new engine")
            os._exit(70)
        if executors.are_lost(count, time.monotonic()):
            log.error("all executors have gone; leaving so that a new engine asks the cluster for others")
            os._exit(71)


def _is_stopped(session: SparkSession) -> bool:
    java_context = session.sparkContext._jsc
    return java_context is None or bool(java_context.sc().isStopped())  # type: ignore[operator]


def _executor_count(session: SparkSession) -> int:
    """Return the number of executors. Spark's list has the driver as well."""
    return session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # type: ignore[operator]
