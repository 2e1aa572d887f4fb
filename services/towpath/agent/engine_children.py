"""Engines as children of the agent: how they are started, and what changes when one must be started anew."""

from __future__ import annotations

import hashlib

from towpath.agent.containment import Containment
from towpath.agent.engine_client import EngineClient
from towpath.agent.settings import Settings
from towpath.contracts.job import JobContainer, JobSpec
from towpath.contracts.site import SMALLEST_HEAP_MB, EngineSpec
from towpath.mesh.names import engine_process
from towpath.processes import ChildSpec

READY_S = 240.0
"""A session starts in five seconds; many at once on two cores take a minute."""

CLUSTER_READY_S = 300.0
"""A cluster may have no master at the moment, which the session waits for, or no free cores."""

STOP_S = 6.0

PYTHON_MB = 400
"""What the Python processes of an engine and the JVM itself need beside heap and state."""


def engine_child(
    settings: Settings, containment: Containment, engine: EngineClient, job: JobSpec | None
) -> ChildSpec:
    """The engine of all jobs of the site, or the one that `job` has for itself."""
    spec = settings.access.spec
    wanted = job.container if job is not None else None
    name = engine_process(settings.site, job.name if job is not None else None)
    command = settings.engine_command
    if job is not None:
        command = (*command, "--job", job.name)
        if wanted is not None and (heap := heap_mb(wanted, spec.engine)) is not None:
            command = (*command, "--memory", f"{heap}m")
    is_local = spec.engine.spark_master.startswith("local")
    environment = settings.engine_environment(name)
    version = spec.engine.model_dump_json() + spec.observation.model_dump_json() + settings.access.nats_url
    version += "faults" if environment else ""
    child = ChildSpec(
        name=name,
        command=command,
        log=settings.home.log(name),
        environment=environment,
        ready=engine.answers,
        ready_s=READY_S if is_local else CLUSTER_READY_S,
        stop_s=STOP_S,
        version=hashlib.sha256(version.encode()).hexdigest()[:16],
        after=(settings.broker.name,),
    )
    return containment.engine(child, wanted)


def heap_mb(wanted: JobContainer, engine: EngineSpec) -> int | None:
    """The heap that fits into what a job's container may use; null: that of the site's engine."""
    if wanted.memory_mb is None:
        return None
    return max(SMALLEST_HEAP_MB, wanted.memory_mb - engine.state_memory_mb - PYTHON_MB)
