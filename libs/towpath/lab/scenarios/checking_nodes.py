"""What must hold between a scenario and the topology that its sites are the nodes of."""

from __future__ import annotations

from collections.abc import Iterator

from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.faults import OnTarget, Rule, TargetKind
from towpath.contracts.scenario import Scenario
from towpath.contracts.scenario_nodes import NodeStep, Outages, Travel, nodes_of
from towpath.contracts.topology import Topology
from towpath.lab.topology.reading import read


def node_problems(scenario: Scenario) -> Iterator[ErrorDetail]:
    """Everything that does not fit together. Raises `TowpathError` when there is no such topology."""
    steps = [(i, step.node) for i, step in enumerate(scenario.timeline) if step.node is not None]
    if scenario.mesh.topology is None:
        for i, _ in steps:
            yield ErrorDetail(
                code=ErrorCode.NOT_ALLOWED,
                message="the sites of this scenario are no emulated nodes",
                field=f"timeline.{i}.node",
                allowed="with mesh.topology",
            )
        return
    topology = read(scenario.mesh.topology)
    known = [node.name for node in topology.nodes]
    for site in scenario.mesh.sites:
        if site not in known:
            yield _unknown("mesh.sites", site, known)
    for i, step in steps:
        yield from _step(f"timeline.{i}.node", step, topology)
    for i, step in enumerate(scenario.timeline):
        for k, rule in enumerate(step.load or ()):
            if _is_about_a_container(rule):
                yield _no_daemon(f"timeline.{i}.load.{k}.event.target")


def _step(place: str, step: NodeStep, topology: Topology) -> Iterator[ErrorDetail]:
    known = {node.name: node for node in topology.nodes}
    for name in nodes_of(step):
        node = known.get(name)
        if node is None:
            yield _unknown(place, name, list(known))
        elif isinstance(step, Travel) and not node.coverage:
            yield _lacking(place, name, "does not move", [n for n, each in known.items() if each.coverage])
        elif isinstance(step, Outages) and node.stability is None:
            unstable = [n for n, each in known.items() if each.stability is not None]
            yield _lacking(place, name, "has no stability", unstable)


def _is_about_a_container(rule: Rule) -> bool:
    return isinstance(rule.event, OnTarget) and rule.event.target is TargetKind.CONTAINER


def _no_daemon(place: str) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.NOT_ALLOWED,
        message="the injector of an emulated topology is not given the container daemon",
        field=place,
        value=TargetKind.CONTAINER.value,
        allowed="in the timeline, `node: {do: fail}`, `stop`, `resize` or `link`: they do the same to a node",
    )


def _unknown(place: str, name: str, known: list[str]) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.UNKNOWN_SITE,
        message="the topology has no such node",
        field=place,
        value=name,
        allowed=known,
    )


def _lacking(place: str, name: str, what: str, allowed: list[str]) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.NOT_ALLOWED, message=f"the node {what}", field=place, value=name, allowed=allowed
    )
