"""Check that the parts of a scenario fit together, and its topology."""

from __future__ import annotations

from collections.abc import Iterator

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import OnTarget, Rule, TargetKind
from towpath.contracts.scenario import Scenario, Step
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.scenario_nodes import NodeStep, Outages, Travel, nodes_of
from towpath.contracts.site import FaultSettings, MeshSpec
from towpath.contracts.topology import Topology
from towpath.lab.faults.validation import problems as rule_problems
from towpath.lab.faults.world import World
from towpath.lab.scenarios.strikes import rule_of
from towpath.lab.topology.reading import read
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.service_table import processes_of
from towpath.protocols.table import tables

NODE_STEPS = "in the timeline, `node: {do: fail}`, `stop`, `resize` or `link`: they do the same to a node"


def check_scenario(scenario: Scenario) -> None:
    """Raise `TowpathError` with everything that does not fit together. The first problem is its message."""
    errors = list(problems(scenario))
    if errors:
        raise TowpathError.of(errors[0].model_copy(update={"errors": errors}))


def problems(scenario: Scenario) -> Iterator[ErrorDetail]:
    """Yield everything that does not fit together."""
    yield from _sites(scenario)
    yield from _jobs(scenario)
    yield from _gateways(scenario)
    yield from _rules(scenario)
    yield from _strikes(scenario)
    yield from _nodes(scenario)


def check_leased(scenario: Scenario) -> None:
    """Raise `TowpathError` if a killed run would leave harm behind on a mesh that is not its own."""
    if scenario.gateways is not None:
        message = "gateways of a run are not given to a mesh that runs already"
        allowed = "a run without --home"
        raise TowpathError.of(_wrong("gateways", None, allowed, message, ErrorCode.NOT_ALLOWED))
    for i, step in enumerate(scenario.timeline):
        if step.strike or step.intercept or step.hub or step.upgrade:
            message = "a run that is killed does not end this, so it is not done to a mesh that runs already"
            allowed = "a run without --home; or `load` with a rule, which ends with its lease"
            place = f"timeline.{i}.{step.action}"
            raise TowpathError.of(_wrong(place, None, allowed, message, ErrorCode.NOT_ALLOWED))


def job_names(scenario: Scenario) -> list[str]:
    """Return the names of all jobs that a run may have."""
    names = [*scenario.mesh.jobs, *(job.name for job in scenario.jobs)]
    names += [job.name for job in scenario.pipeline.jobs] if scenario.pipeline else []
    for step in scenario.timeline:
        names += [step.deploy.name] if step.deploy else []
        names += [job.name for job in step.apply.jobs] if step.apply else []
    return list(dict.fromkeys(names))


def rules_of(scenario: Scenario) -> list[Rule]:
    """Return all rules that the timeline loads, in its order."""
    return [rule for step in scenario.timeline for rule in step.load or ()]


def idle_rules(scenario: Scenario) -> list[Rule]:
    """Return copies of the rules about processes, machines and disks that never act.

    They are loaded early, so that the programs that execute such rules are running: starting one takes
    seconds on a busy machine, and a fault must come at its moment.
    """
    guarded = (TargetKind.PROCESS, TargetKind.MACHINE, TargetKind.DISK, TargetKind.CONTAINER)
    return [
        rule.model_copy(update={"name": f"idle-{position}", "condition": "false", "for_s": None})
        for position, rule in enumerate(rules_of(scenario))
        if isinstance(rule.event, OnTarget) and rule.event.target in guarded
    ]


def _sites(scenario: Scenario) -> Iterator[ErrorDetail]:
    known = scenario.mesh.sites
    if len(set(known)) < len(known):
        yield _wrong("mesh.sites", known, "each site once", "two sites have the same name")
    named = [(f"load.{i}.site", load.site) for i, load in enumerate(scenario.load)]
    for i, job in enumerate(scenario.jobs):
        parts = (
            ("site", "input_site", "second_input_site", "output_site", "standby")
            if isinstance(job, StandardJob)
            else ("site",)
        )
        named += [(f"jobs.{i}.{part}", getattr(job, part)) for part in parts if getattr(job, part)]
    for i, probe in enumerate(scenario.steady_state):
        if probe.probe == "site_up":
            named.append((f"steady_state.{i}.site", probe.site))
    for i, step in enumerate(scenario.timeline):
        if step.migrate is not None and step.migrate.to is not None:
            named.append((f"timeline.{i}.migrate.to", step.migrate.to))
        if step.migrate is not None and step.migrate.to is None and len(known) != 2:
            yield _wrong(f"timeline.{i}.migrate.to", None, known, "which site is not clear")
        if step.upgrade is not None:
            named.append((f"timeline.{i}.upgrade.site", step.upgrade.site))
            named += [(f"timeline.{i}.upgrade.to", step.upgrade.to)] if step.upgrade.to else []
        ahead = step.announce or step.discharge
        if ahead is not None:
            named.append((f"timeline.{i}.{step.action}.site", ahead.site))
        if step.pace is not None:
            loaded = sorted({load.site for load in scenario.load})
            if not loaded or step.pace.site not in (None, *loaded):
                yield _wrong(f"timeline.{i}.pace.site", step.pace.site, loaded, "no load to change")
    for field, site in named:
        if site not in known:
            yield _wrong(field, site, known, "no such site in mesh.sites", ErrorCode.UNKNOWN_SITE)


def _jobs(scenario: Scenario) -> Iterator[ErrorDetail]:
    deployed = [job.name for job in scenario.jobs]
    for i, name in enumerate(deployed):
        if name in deployed[:i] or name in scenario.mesh.jobs:
            yield _wrong(f"jobs.{i}.name", name, "another name", "two jobs have the same name")
    known = job_names(scenario)
    for i, probe in enumerate(scenario.steady_state):
        job = getattr(probe, "job", None)
        if job is not None and job not in known:
            yield _wrong(f"steady_state.{i}.job", job, known, "no such job", ErrorCode.UNKNOWN_JOB)
    for i, step in enumerate(scenario.timeline):
        job = _job_of(step)
        if job is not None and job not in known:
            place = f"timeline.{i}.{step.action}.job"
            yield _wrong(place, job, known, "no such job", ErrorCode.UNKNOWN_JOB)
        if step.remove is not None and job in scenario.mesh.jobs:
            message = "a run does not remove what was there before it"
            yield _wrong(f"timeline.{i}.remove.job", job, deployed, message, ErrorCode.NOT_ALLOWED)


def _gateways(scenario: Scenario) -> Iterator[ErrorDetail]:
    given = scenario.gateways
    if given is not None and given.site not in scenario.mesh.sites:
        yield _wrong("gateways.site", given.site, scenario.mesh.sites, "no such site", ErrorCode.UNKNOWN_SITE)
    if given is not None and scenario.mesh.topology is not None:
        message = "the gateways of a run cannot reach the nodes of a topology"
        yield _wrong("gateways", None, "without mesh.topology", message, ErrorCode.NOT_ALLOWED)
    for i, step in enumerate(scenario.timeline):
        if step.roll_out is not None and given is None:
            yield _wrong(f"timeline.{i}.roll_out", None, "with gateways", "the scenario has no gateways")


def _job_of(step: Step) -> str | None:
    if step.update is not None:
        return step.update.spec.name
    command = step.migrate or step.scale or step.remove or step.fail_over or step.intercept
    return None if command is None else command.job


def _rules(scenario: Scenario) -> Iterator[ErrorDetail]:
    names, world = [rule.name for rule in rules_of(scenario)], world_of(scenario)
    for i, step in enumerate(scenario.timeline):
        for k, rule in enumerate(step.load or ()):
            for found in rule_problems(rule, world):
                place = f"timeline.{i}.load.{k}.{found.field or ''}".rstrip(".")
                yield found.model_copy(update={"field": place})
        for k, name in enumerate(step.unload or ()):
            if name not in names:
                yield _wrong(f"timeline.{i}.unload.{k}", name, names, "no step loads this rule")


def _strikes(scenario: Scenario) -> Iterator[ErrorDetail]:
    world = world_of(scenario)
    known = sorted({each.name for table in tables().values() for each in table.steps})
    for i, step in enumerate(scenario.timeline):
        place = f"timeline.{i}.{step.action}"
        if (step.strike or step.intercept or step.hub or step.upgrade) and scenario.mesh.topology is not None:
            message = "the run cannot reach processes in the nodes of a topology"
            yield _wrong(place, None, NODE_STEPS, message, ErrorCode.NOT_ALLOWED)
        elif step.strike is not None:
            for found in rule_problems(rule_of(step.strike), world):
                inside = (found.field or "").replace("event.", "").replace("actions.0.", "")
                yield found.model_copy(update={"field": f"{place}.{inside}"})
        elif step.intercept is not None and step.intercept.step not in known:
            yield _wrong(f"{place}.step", step.intercept.step, known, "no operation has such a step")


def _nodes(scenario: Scenario) -> Iterator[ErrorDetail]:
    """Yield what does not fit the scenario's topology. Raises `TowpathError` if there is none of its name."""
    steps = [(i, step.node) for i, step in enumerate(scenario.timeline) if step.node is not None]
    if scenario.mesh.topology is None:
        for i, _ in steps:
            message = "the sites of this scenario are no emulated nodes"
            yield _wrong(f"timeline.{i}.node", None, "with mesh.topology", message, ErrorCode.NOT_ALLOWED)
        return
    topology = read(scenario.mesh.topology)
    known = [node.name for node in topology.nodes]
    for site in scenario.mesh.sites:
        if site not in known:
            yield _wrong("mesh.sites", site, known, "the topology has no such node", ErrorCode.UNKNOWN_SITE)
    for i, step in steps:
        yield from _node_step(f"timeline.{i}.node", step, topology)
    for i, step in enumerate(scenario.timeline):
        for k, rule in enumerate(step.load or ()):
            if isinstance(rule.event, OnTarget) and rule.event.target is TargetKind.CONTAINER:
                place = f"timeline.{i}.load.{k}.event.target"
                message = "the injector of an emulated topology is not given the container daemon"
                yield _wrong(place, rule.event.target.value, NODE_STEPS, message, ErrorCode.NOT_ALLOWED)


def _node_step(place: str, step: NodeStep, topology: Topology) -> Iterator[ErrorDetail]:
    known = {node.name: node for node in topology.nodes}
    for name in nodes_of(step):
        node = known.get(name)
        if node is None:
            yield _wrong(place, name, [*known], "the topology has no such node", ErrorCode.UNKNOWN_SITE)
        elif isinstance(step, Travel) and not node.coverage:
            movers = [n for n, each in known.items() if each.coverage]
            yield _wrong(place, name, movers, "the node does not move", ErrorCode.NOT_ALLOWED)
        elif isinstance(step, Outages) and node.stability is None:
            unstable = [n for n, each in known.items() if each.stability is not None]
            yield _wrong(place, name, unstable, "the node has no stability", ErrorCode.NOT_ALLOWED)


def world_of(scenario: Scenario) -> World:
    """Return everything that rules can name on the scenario's mesh."""
    sites = scenario.mesh.sites
    # Not validated: what is wrong with the sites is said above.
    spec = MeshSpec.model_construct(
        sites=[], emulate_links=scenario.mesh.emulate_links, faults=FaultSettings(enabled=True)
    )
    processes = processes_of(spec, sites)
    targets = [rule.event for rule in rules_of(scenario) if isinstance(rule.event, OnTarget)]
    return World(
        sites=frozenset(sites),
        processes=frozenset((SUPERVISOR, *processes)),
        links=frozenset(sites if scenario.mesh.emulate_links else ()),
        jobs=frozenset(job_names(scenario)),
        # Only the machine knows its containers.
        containers=frozenset(t.name for t in targets if t.target is TargetKind.CONTAINER),
    )


def _wrong(
    field: str, value: object, allowed: str | list[str], message: str, code: ErrorCode = ErrorCode.INVALID
) -> ErrorDetail:
    return ErrorDetail(code=code, message=message, field=field, value=value, allowed=allowed)
