"""Carries out what the timeline of a scenario says about nodes."""

from __future__ import annotations

from towpath.contracts.scenario_nodes import (
    ChangeLink,
    FailNodes,
    NodeStep,
    Outages,
    ResizeNode,
    StartNodes,
    StopNodes,
    Travel,
)
from towpath.lab.emulation.emulation import Emulation


async def carry_out(running: Emulation, step: NodeStep, seed: object = 0) -> None:
    """Do it, to its end: a journey, an outage, the start of a node. Raises `TowpathError`.

    `seed` decides what chance does.
    """
    match step:
        case StartNodes():
            await running.start(step.nodes)
        case StopNodes():
            await running.stop(step.nodes)
        case FailNodes():
            await running.fail(step.nodes, step.for_s)
        case ResizeNode():
            await running.resize(step.node, step.cores, step.clock_ghz, step.memory_mb)
        case ChangeLink():
            await running.link(step.node, step.link)
        case Travel():
            await running.travel(step.node, step.rounds)
        case Outages():
            await running.let_fail(step.nodes, step.for_s, seed)
