"""Emulated topologies: nodes as a description gives them, to be run as containers on one machine.

A node is a site: a container with its share of this machine's processor, so much memory, and a link of its
own to the hub. What is emulated is a node that works, not one that starts: a node starts with all that the
machine has, and gets its limits once its site is up.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from towpath.contracts.links import LONGEST_DELAY_MS, LinkConditions
from towpath.contracts.message import JobName, Model, SiteName, unreserved
from towpath.contracts.scenario_load import Seconds
from towpath.contracts.site import EngineSpec

BYTES_PER_MBIT = 125_000

SHORTEST_WINDOW_S = 0.5
"""A part of a journey that is shorter could not be told from the time that changing a link takes."""


class PowerProfile(Model):
    """Power of a node: `idle_w` when it does nothing, `active_w` when all of its cores work, watts.

    In between it goes straight, as the linear power models of Fan, Weber and Barroso (2007) have it.
    """

    idle_w: float = Field(ge=0, le=1e6)
    active_w: float = Field(ge=0, le=1e6)

    @model_validator(mode="after")
    def _more_when_active(self) -> Self:
        if self.active_w < self.idle_w:
            raise ValueError("active_w must be at least idle_w")
        return self


class NodeLink(Model):
    """Conditions of the link between a node and the hub, in each direction. The default is a perfect link."""

    delay_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Time in one direction: a round trip takes twice as long."""
    jitter_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """The delay varies evenly by as much, up and down."""
    bandwidth_mbit_s: float | None = Field(default=None, ge=0.001, le=100_000, allow_inf_nan=False)
    """Megabits (of 1,000,000) per second; null: no limit."""
    loss_percent: float = Field(default=0.0, ge=0, le=100, allow_inf_nan=False)
    """Of packets, each time they are sent; they are sent again, so it is felt as a delay."""
    cut: bool = False
    """Nothing passes."""

    @property
    def conditions(self) -> LinkConditions:
        """The same, as the links between sites and hub are told it."""
        mbit = self.bandwidth_mbit_s
        return LinkConditions(
            cut=self.cut,
            delay_ms=self.delay_ms,
            jitter_ms=self.jitter_ms,
            bandwidth_bytes_per_s=None if mbit is None else max(1, round(mbit * BYTES_PER_MBIT)),
            loss_percent=self.loss_percent,
        )


class CoverageWindow(Model):
    """A part of a node's journey: how long it lasts, and how good its link is meanwhile."""

    for_s: Seconds = Field(ge=SHORTEST_WINDOW_S)
    link: NodeLink | None = None
    """Null: as the node's link is where it is not on a journey."""


LEAST_MEMORY_MB = 1024
"""Of a node: the smallest heap of an engine, what its JVM and Python take besides, an agent and a server."""


class Node(Model):
    """A machine of the topology: a site."""

    name: SiteName
    cores: float = Field(gt=0, le=1024, allow_inf_nan=False)
    """Number of cores. A fraction is a part of one."""
    clock_ghz: float | None = Field(default=None, gt=0, le=100, allow_inf_nan=False)
    """Clock of each core; null: as this machine's. Its share of this machine is cores × clock ÷ this
    machine's clock, for all of its threads together: one thread alone may be faster than one core."""
    memory_mb: int = Field(default=1536, ge=LEAST_MEMORY_MB)
    """Memory of all its processes together; beyond it the kernel kills one."""
    disk_mb: int | None = Field(default=None, ge=64)
    """Room for what it stores, roughly: each of its streams (what comes in, what a job emits or rejects, a
    copy of another site's) drops what is oldest before it takes more than half of it. More than two full ones
    take more; checkpoints and the site's own figures come on top. Null: no limit but the streams'."""
    power: PowerProfile | None = None
    """Null: what it draws is not counted."""
    stability: float | None = Field(default=None, gt=0, le=1)
    """Share of the time that it is up, where a scenario lets nodes fail as they do; null: always."""
    outage_s: Seconds = Field(default=8.0, ge=1)
    """Average time until it is started again after a failure. The time that its engine takes to start
    comes on top; its times up are longer then, so that `stability` holds over a long time."""
    link: NodeLink = NodeLink()
    coverage: list[CoverageWindow] = []
    """The journey of a node that moves: these windows one after the other, then from the beginning again.
    It begins when a scenario says so."""
    engine: EngineSpec | None = None
    """Null: one that fits its cores and its memory."""
    spare: bool = False
    """Not started with the others: a scenario's step `start` does."""
    nats_port: int = Field(default=0, ge=0, le=65535)
    """Of this machine, where its server is reached; 0 takes a free one and keeps it."""
    mqtt_port: int = Field(default=0, ge=0, le=65535)

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        return unreserved(name, "node")


class Topology(Model):
    """Nodes and their links to the hub: the content of a file that `towpath fog up` takes."""

    name: JobName
    description: str = ""
    host_clock_ghz: float | None = Field(default=None, gt=0, le=100, allow_inf_nan=False)
    """Clock of the machine that emulates; null: the highest that its cores can have, as its kernel says, or,
    where that is not known, the highest that one has when the topology is brought up."""
    nodes: list[Node] = Field(min_length=1)

    @field_validator("nodes")
    @classmethod
    def _unique(cls, nodes: list[Node]) -> list[Node]:
        names = [node.name for node in nodes]
        if len(set(names)) < len(names):
            raise ValueError("two nodes have the same name")
        if all(node.spare for node in nodes):
            raise ValueError("all nodes are spare: none would be started")
        return nodes

    def node(self, name: str) -> Node | None:
        """The node of that name; null if there is none."""
        return next((node for node in self.nodes if node.name == name), None)
