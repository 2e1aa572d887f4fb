"""Steps of a scenario's timeline on the nodes of an emulated topology, and on their links."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from towpath.contracts.message import Model, SiteName
from towpath.contracts.scenario_load import Seconds
from towpath.contracts.topology import LEAST_MEMORY_MB, NodeLink

Nodes = Annotated[list[SiteName], Field(min_length=1)]


class StartNodes(Model):
    """Scale out, or let nodes return: start those that are not there. Done when their sites are up."""

    do: Literal["start"]
    nodes: Nodes


class StopNodes(Model):
    """Scale in: nodes end in an orderly way, and are gone until they are started. Move their jobs first."""

    do: Literal["stop"]
    nodes: Nodes


class FailNodes(Model):
    """Nodes fail, as when their power goes: everything in them is killed at once. What they stored stays."""

    do: Literal["fail"]
    nodes: Nodes
    for_s: Seconds | None = None
    """Then they are started again, and it is done when their sites are up; null: they stay away until a
    step, or the end of the run, starts them."""


class ResizeNode(Model):
    """Scale a running node up or down. What is left out stays."""

    do: Literal["resize"]
    node: SiteName
    cores: float | None = Field(default=None, gt=0, le=1024, allow_inf_nan=False)
    clock_ghz: float | None = Field(default=None, gt=0, le=100, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, ge=LEAST_MEMORY_MB)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.cores is None and self.clock_ghz is None and self.memory_mb is None:
            raise ValueError("a resize says at least one of cores, clock_ghz and memory_mb")
        return self


class ChangeLink(Model):
    """The link of a node becomes another one."""

    do: Literal["link"]
    node: SiteName
    link: NodeLink | None = None
    """Null: as the topology has it."""


class Travel(Model):
    """A node goes on its journey: its link is what its coverage says, window after window."""

    do: Literal["travel"]
    node: SiteName
    rounds: int = Field(default=1, ge=1, le=10_000)
    """Number of rounds. After the last, its link is as the topology has it."""


class Outages(Model):
    """Nodes fail and return by chance, as often as their stability says; the run's seed decides when."""

    do: Literal["outages"]
    nodes: Nodes | None = None
    """Null: all whose stability is known."""
    for_s: Seconds = Field(gt=0)
    """The last outage begins before that."""


NodeStep = Annotated[
    StartNodes | StopNodes | FailNodes | ResizeNode | ChangeLink | Travel | Outages,
    Field(discriminator="do"),
]
"""One thing that happens to nodes."""


def nodes_of(step: NodeStep) -> list[str]:
    """The nodes that a step names."""
    if isinstance(step, StartNodes | StopNodes | FailNodes | Outages):
        return step.nodes or []
    return [step.node]
