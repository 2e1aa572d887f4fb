"""The scenario of a cell: one job under load is moved or changed, and the fault comes when a step begins."""

from __future__ import annotations

from typing import Any, Literal
from zlib import crc32

from towpath.contracts.commands import StrategyName
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.operators import Forward
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.contracts.plan_rollout import RolloutState
from towpath.contracts.scenario import (
    Failover,
    LagProbe,
    Migration,
    Phases,
    Probe,
    Removal,
    Scenario,
    ScenarioMesh,
    SiteProbe,
    SiteUpgrade,
    StandbyProbe,
    Step,
    Trigger,
    Update,
)
from towpath.contracts.scenario_expectations import ANY, NONE, Expectations, MoveEnd
from towpath.contracts.scenario_gateways import RollOut, ScenarioGateways
from towpath.contracts.scenario_load import StandardJob, SyntheticLoad
from towpath.contracts.scenario_strikes import HubTrouble, Interception, Meddling
from towpath.lab.drill.matrix import (
    APPLY,
    BROKERS,
    COMPOSED,
    FAIL_OVER,
    PLAN,
    PLAN_STEPS,
    QUERY,
    REDIRECT,
    REMOVE,
    USUAL,
    ActorName,
    Cell,
    Conditions,
    FaultName,
)
from towpath.lab.harness.events import WATERMARK_S
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios import usual_strikes
from towpath.queries.compilation import Asked, compiled

INPUT_SITE, OTHER_SITE, OUTPUT_SITE = "a", "b", "out"
"""Events come in at the first site, and the job moves between the first two. Some jobs keep their results at
the third, so that every result crosses a link, others at the first."""

LOAD = SyntheticLoad(site=INPUT_SITE, topic="site/drill", rate=200.0, keys=5, disorder_s=0.2)

SECOND_LOAD = LOAD.model_copy(update={"site": OUTPUT_SITE, "rate": 50.0})
"""Of jobs with two inputs: the other one is slower, and at another site."""

LEAVE_OUTPUTS = (REMOVE, REDIRECT)
"""Operations after which an output stays: the next job of that name would go on in it, and what has the
identity of an earlier result would count as its repetition."""

PIPELINE = "composed"

STREAM = (
    f'events = STREAM FROM topic(topic="{LOAD.topic}", sites="{{sites}}", time="at", '
    f'delay="{WATERMARK_S:g} SECONDS");'
)
QUERIES = 'mean = COMPUTE AVG("value" FROM (events), 2 SECONDS) BY key EVERY 1 SECONDS;'
JOINING = 'many = COMPUTE COUNT("value" FROM (events), 4 SECONDS) BY key WHEN > 3 EVERY 1 SECONDS;'
"""A query that needs no other panes than those that are made already."""

TWO_INPUTS_EVERY = 4
"""Every Nth cell whose job computes windows has a job with two inputs."""

CAUGHT_UP = 4000
"""Events that a job may be behind: those of twenty seconds. A cell begins when the job has processed some. It
does not wait until the job has caught up with an outage: it is judged by how soon results flow again."""

CAUGHT_UP_WITHIN_S = 180.0

BROKER_PAUSE_S = 9.0
"""Less than ten seconds, after which a device gives a silent broker up and sends everything again: events
would be stored twice, later than any watermark waits."""

LOST_AT_S, OPERATE_AT_S = 0.05, 0.1
"""Seconds until the site of a failover is cut off, and until the operation begins. An interception begins at
once, and steps of one moment wait for each other."""

BEGINS_WITHIN_S = 120.0
"""Seconds for the step to begin: those before it wait for micro-batches."""

SECOND_WITHIN_S = 300.0
"""Seconds for the next step to begin, or for the operation to end: longer than any retry after one fault."""

HOLD_S = 5.0
"""Seconds for which a twin runs: some micro-batches of both."""

STATELESS_EVERY = 3
"""Every Nth cell has a stateless job, if the operation is for any kind."""

FLOWS_S = 10.0
"""Seconds for the first results of a job that is removed, whose lag no one knows then."""

MISSED_S = 30.0
"""Seconds for which the source is cut off, beyond the outage of the cell's fault. It is missed after five
seconds; the rest is for the failover itself."""

COPY_AGE_S = 30.0
"""Greatest age of a standby's copy when a failover begins: that of some rounds."""

BEGIN_WITHIN_S = 240.0
"""Seconds for a cell to begin. A standby's engine may have to start on a busy machine, beside the job."""


def scenario_of(cell: Cell, conditions: Conditions = USUAL) -> Scenario:
    """Return the scenario of a cell. It is the same in every drill under these conditions."""
    workload = workload_of(cell)
    job = StandardJob(
        name=_job_name(cell, workload),
        workload=workload,
        site=source_of(cell),
        input_site=INPUT_SITE,
        output_site=output_site_of(cell),
        second_input_site=SECOND_LOAD.site if has_two_inputs(cell) else None,
        topic=LOAD.topic,
        standby=target_of(cell) if cell.operation == FAIL_OVER else None,
    )
    is_removed, is_composed = cell.operation == REMOVE, cell.operation in (APPLY, QUERY)
    return Scenario(
        name=cell.scenario,
        description=f"A step of an operation on a job meets a fault: {cell.name}.",
        mesh=ScenarioMesh(
            sites=[INPUT_SITE, OTHER_SITE, OUTPUT_SITE],
            durability=conditions.durability,
            autopilot=conditions.autopilot,
            encrypted=conditions.encrypted,
        ),
        jobs=[] if is_composed else [job],
        pipeline=_pipeline(cell, job) if is_composed else None,
        gateways=ScenarioGateways(site=job.site) if cell.operation == PLAN else None,
        load=[LOAD, *([SECOND_LOAD] if job.second_input_site else [])],
        steady_state=_steady_state(cell, job.name),
        phases=Phases(
            before_s=FLOWS_S if is_removed else 0,
            begin_within_s=BEGIN_WITHIN_S,
            during_s=0,
            after_s=CAUGHT_UP_WITHIN_S,
            steady_s=0,
        ),
        timeline=[*_harms(cell, job.name, conditions.outage_s), *_operation(cell, job, conditions.outage_s)],
        expect=Expectations(
            recovers_within_s=None,
            lost=NONE,  # Said, so that a cell whose results no one can judge is not clean.
            results_again_within_s=None if is_removed else conditions.recovered_within_s,
            in_order=workload == "cleaned",
            # For a moment a broker with a full disk acknowledges events that it can no longer write. They
            # never were in the job's input, so no strategy can lose them.
            unstored=ANY if _fills_intake(cell) else NONE,
            migrations=MoveEnd.WELL,
        ),
    )


def _job_name(cell: Cell, workload: str) -> str:
    if cell.operation == QUERY:
        return PIPELINE  # The job that answers has the name of its text.
    return workload if cell.operation not in LEAVE_OUTPUTS else f"job-{crc32(cell.name.encode()):08x}"


def workload_of(cell: Cell) -> Literal["windows", "cleaned", "processing"]:
    """Return the standard job of a cell.

    One that is removed has a result for each event: so it is known which results it owes.
    """
    if cell.operation == StrategyName.PARALLEL:
        return "processing"
    if cell.operation == REMOVE:
        return "cleaned"
    if cell.operation in COMPOSED:
        return "windows"
    return "cleaned" if crc32(cell.name.encode()) % STATELESS_EVERY == 0 else "windows"


def has_two_inputs(cell: Cell) -> bool:
    """Return true if a cell's job reads from two sites."""
    return workload_of(cell) == "windows" and crc32(cell.name.encode()) // 12 % TWO_INPUTS_EVERY == 0


def output_site_of(cell: Cell) -> str:
    """Return the site of the results of a cell's job, before they are redirected."""
    if cell.operation in (REDIRECT, FAIL_OVER):
        return OUTPUT_SITE
    at_home = crc32(cell.name.encode()) // STATELESS_EVERY % 2 == 1 and not cell.actor.startswith("output-")
    return INPUT_SITE if at_home else OUTPUT_SITE


def source_of(cell: Cell) -> str:
    """Return the site of a cell's job when the operation begins: in half of the cells, the one of the input.

    A target that loses its disks is never the site of the input, whose events no one else has.
    """
    if cell.fault is FaultName.LOSE_DISK:
        return INPUT_SITE
    return OTHER_SITE if crc32(cell.name.encode()) // STATELESS_EVERY // 2 % 2 == 1 else INPUT_SITE


def target_of(cell: Cell) -> str:
    """Return the site that a cell's job moves to, or that its results are redirected to."""
    return INPUT_SITE if source_of(cell) == OTHER_SITE else OTHER_SITE


def process_of(cell: Cell, actor: ActorName | None = None) -> str:
    """Return the name of the process that an actor of a cell is; by default the one that the fault hits."""
    actor = actor or cell.actor
    role, _, part = actor.partition("-")
    sites = {"source": source_of(cell), "target": target_of(cell), "output": OUTPUT_SITE}
    return f"{sites[role]}-{part}" if role in sites else actor


def machine_of(cell: Cell, actor: ActorName) -> str:
    """Return the machine that an actor of a cell stands for: the site of a broker, or the hub."""
    return HUB_SCOPE if actor is ActorName.REDIS else process_of(cell, actor).partition("-")[0]


def _steady_state(cell: Cell, job: str) -> list[Probe]:
    if cell.operation == REMOVE:
        return [SiteProbe(site=site) for site in (INPUT_SITE, OTHER_SITE, OUTPUT_SITE)]
    lag = LagProbe(job=job, at_most_events=CAUGHT_UP)
    copy = StandbyProbe(job=job, at_most_s=COPY_AGE_S)
    return [lag, copy] if cell.operation == FAIL_OVER else [lag]


def _operation(cell: Cell, job: StandardJob, outage_s: float) -> list[Step]:
    """Return the steps that begin the operation."""
    spec = spec_of(job)
    match cell.operation:
        case "adjust":
            changed = spec.model_copy(update={"max_events_per_batch": 10 * round(LOAD.rate)})
            return [_step(update=Update(spec=changed, wait=False))]
        case "update":
            changed = spec.model_copy(update={"trigger_s": 2 * job.trigger_s})
            return [_step(update=Update(spec=changed, wait=False))]
        case "redirect":
            output = spec.output.model_copy(update={"site": target_of(cell)})
            return [_step(update=Update(spec=spec.model_copy(update={"output": output}), wait=False))]
        case "apply" | "query":
            return [_step(apply=_pipeline(cell, job, is_changed=True))]
        case "plan":
            return [_step(roll_out=RollOut(version=2))]
        case "upgrade":
            return [_step(upgrade=SiteUpgrade(site=source_of(cell), to=target_of(cell)))]
        case "remove":
            return [_step(remove=Removal(job=job.name, wait=False))]
        case "fail-over":
            lost = usual_strikes.cut(source_of(cell), MISSED_S + outage_s)
            return [Step(at=LOST_AT_S, strike=lost), _step(fail_over=Failover(job=job.name))]
        case strategy:
            hold_s = HOLD_S if strategy == StrategyName.TWIN else None
            move = Migration(job=job.name, to=target_of(cell), strategy=StrategyName(strategy), hold_s=hold_s)
            return [_step(migrate=move)]


def _pipeline(cell: Cell, job: StandardJob, *, is_changed: bool = False) -> PipelineSpec:
    return (_query_text if cell.operation == QUERY else _two_jobs)(cell, job, is_changed=is_changed)


def _query_text(cell: Cell, job: StandardJob, *, is_changed: bool) -> PipelineSpec:
    """Return queries over the cell's events, answered where the cell's job is. Changed, one more."""
    sites = [site for site in (job.input_site, job.second_input_site) if site]
    text = "\n".join([STREAM, QUERIES, *([JOINING] if is_changed else [])])
    asked = Asked(PIPELINE, job.site, text, {"sites": ",".join(sites)}, sites)
    found = compiled(asked).pipeline
    *panes, answers = found.jobs
    output = answers.output.model_copy(update={"site": job.output_site})
    return found.model_copy(update={"jobs": [*panes, answers.model_copy(update={"output": output})]})


def _two_jobs(cell: Cell, job: StandardJob, *, is_changed: bool) -> PipelineSpec:
    """Return a pipeline of the cell's job and one that passes its results on.

    Changed, the job has another trigger, the other one is at another site, and a third one is there.
    """
    spec = spec_of(job)
    passing = JobSpec(
        name=f"{job.name}-passed",
        site=target_of(cell) if is_changed else OUTPUT_SITE,
        inputs=[Input(site=spec.output_site, topic=spec.output.topic)],
        output=Output(site=OUTPUT_SITE, topic=f"drill/{job.name}-passed"),
        operator=Forward(),
    )
    jobs = [spec, passing]
    if is_changed:
        slower = spec.model_copy(update={"trigger_s": 2 * job.trigger_s})
        output = Output(site=OUTPUT_SITE, topic=f"drill/{job.name}-too")
        jobs = [slower, passing, spec.model_copy(update={"name": f"{job.name}-too", "output": output})]
    described = [PipelineJob.model_validate(each.model_dump()) for each in jobs]
    return PipelineSpec(name=PIPELINE, jobs=described)


def _step(**action: Any) -> Step:
    return Step(at=OPERATE_AT_S, **action)


def _harms(cell: Cell, job: str, outage_s: float) -> list[Step]:
    """Return the steps that do the harm. After the first one, the operation may end before the second."""
    if cell.operation == PLAN:
        where: dict[str, Any] = {"wave": PLAN_STEPS.index(cell.step) + 1, "state": RolloutState.RUNNING}
        begins = Trigger(event="plan.*.changed", where=where, within_s=BEGINS_WITHIN_S)
    else:
        where = {"job": job, "step": cell.step, "phase": "begun"}
        begins = Trigger(event="operation.*.step", where=where, within_s=BEGINS_WITHIN_S)
    harms = [_harm(cell, cell.fault, cell.actor, begins, outage_s)]
    if cell.second:
        fault, actor = cell.second
        next_one = begins.model_copy(
            update={
                "where": {**where, "step": cell.next_step},
                "within_s": SECOND_WITHIN_S,
                "unless_ended": job,
            }
        )
        harms.append(_harm(cell, fault, actor, next_one, outage_s))
    return harms


def _harm(cell: Cell, fault: FaultName, actor: ActorName, begins: Trigger, outage_s: float) -> Step:
    """Return the step that does one fault to one actor when a step begins."""
    process, machine = process_of(cell, actor), machine_of(cell, actor)
    pause_s = min(BROKER_PAUSE_S, outage_s)
    match fault:
        case FaultName.KILL:
            strike = usual_strikes.kill(process)
        case FaultName.STOP:
            strike = usual_strikes.pause(process, pause_s if actor in BROKERS else outage_s)
        case FaultName.SUSPEND:
            strike = usual_strikes.pause_machine(machine, pause_s)
        case FaultName.CLOCK:
            strike = usual_strikes.clock_jump(process, outage_s)
        case FaultName.CUT | FaultName.CUT_TO_HUB | FaultName.CUT_TO_SITE | FaultName.CUT_FROM_REDIS:
            only = fault.removeprefix("cut").removeprefix("-").replace("-", "_")
            strike = usual_strikes.cut(machine, outage_s, only)
        case FaultName.DISK_FULL:
            strike = usual_strikes.disk_full(process, outage_s)
        case FaultName.POWER | FaultName.LOSE_DISK:
            strike = usual_strikes.power(machine, lose_disks=fault is FaultName.LOSE_DISK)
        case FaultName.LOSE_REPLY:
            return _intercepted(begins, Meddling.LOSE_REPLY)
        case FaultName.TWICE:
            return _intercepted(begins, Meddling.DELIVER_TWICE)
        case FaultName.TWO_COORDINATORS:
            return Step(on=begins, hub=HubTrouble.SECOND_COORDINATOR)
        case FaultName.REDIS_FROM_YESTERDAY:
            return Step(on=begins, hub=HubTrouble.REDIS_FROM_YESTERDAY)
    return Step(on=begins, strike=strike)


def _intercepted(begins: Trigger, do: Meddling) -> Step:
    about = Interception(job=begins.where["job"], step=begins.where["step"], do=do, within_s=begins.within_s)
    return Step(at=0.0, intercept=about)


def _fills_intake(cell: Cell) -> bool:
    faults = [(cell.fault, cell.actor), *([cell.second] if cell.second else [])]
    full = [process_of(cell, actor) for fault, actor in faults if fault is FaultName.DISK_FULL]
    intakes = [INPUT_SITE, *([SECOND_LOAD.site] if has_two_inputs(cell) else [])]
    return any(f"{site}-nats" in full for site in intakes)
