"""Whether a rule can be loaded into a mesh: all that is wrong with it, with what would be allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import HUB_SCOPE, AtCode, OnTarget, Rule, TargetKind
from towpath.faults.code_points import parameters_of
from towpath.faults.conditions import compile_condition
from towpath.faults.expressions import OWN_SITE
from towpath.faults.rule_files import read_rules
from towpath.faults.rule_form import form_problems, misnamed
from towpath.faults.sources import Unknown

__all__ = ["World", "problems", "read_rules"]

_SHOWN = 60
"""Names that an error shows of a longer list: those most like the given one would be in the message."""

_SERVERS = ("nats", "redis", "mosquitto")
"""Ends of the names of processes that run no Python: no rule sets their clock."""


@dataclass(frozen=True)
class World:
    """What exists in a mesh, by name."""

    sites: frozenset[str] = frozenset()
    processes: frozenset[str] = frozenset()
    """Of all scopes, also those that are just being started anew."""
    links: frozenset[str] = frozenset()
    """Sites whose link is emulated."""
    jobs: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    """Of the daemon that the injector asks, also those that do not run."""
    networks: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Container → names of the networks that it is on."""
    own_container: str | None = None
    """The one that the injector runs in, if it does."""
    without_daemon: ErrorDetail | None = None
    """Why it is not known which containers there are."""
    archives: tuple[Path, ...] = ()
    """Zips with user code."""

    @property
    def scopes(self) -> list[str]:
        """The hub and the sites."""
        return [HUB_SCOPE, *sorted(self.sites)]


def problems(rule: Rule, world: World) -> list[ErrorDetail]:
    """All that is wrong with a rule in a mesh; an empty list when it can be loaded.

    Reads source files and archives, so it may take some tens of milliseconds.
    """
    return [*form_problems(rule), *_of_event(rule, world), *_of_where(rule, world), *_of_scopes(rule, world)]


def targets(kind: TargetKind, world: World) -> list[str]:
    """All targets of a kind, by name."""
    match kind:
        case TargetKind.LINK:
            return sorted(world.links)
        case TargetKind.MACHINE:
            return world.scopes
        case TargetKind.CONTAINER:
            return sorted(world.containers)
        case TargetKind.CLOCK:
            return sorted(name for name in world.processes if runs_python(name))
        case TargetKind.PROCESS | TargetKind.DISK:
            return sorted(world.processes)


def runs_python(process: str) -> bool:
    """Whether a process of this name runs Python code: a broker and the store do not."""
    return process != HUB_SCOPE and not process.endswith(_SERVERS)


def _of_event(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    match rule.event:
        case OnTarget(target=TargetKind.CONTAINER) if world.without_daemon is not None:
            yield world.without_daemon.model_copy(update={"field": "event.target", "value": "container"})
        case OnTarget(target=kind, name=name):
            known = targets(kind, world)
            if name not in known:
                yield misnamed(f"there is no such {kind.value}", "event.name", name, known)
            elif kind is TargetKind.CONTAINER:
                yield from _of_networks(rule, sorted(world.networks.get(name, ())))
                yield from _of_own_container(rule, name, world)
        case AtCode(code=code):
            yield from _of_code(code, rule, world)


def _of_networks(rule: Rule, known: list[str]) -> Iterator[ErrorDetail]:
    """Networks that actions name and that the rule's container is not on."""
    for place, action in enumerate(rule.actions):
        network = action.parameters.get("network")
        if isinstance(network, str) and network not in known:
            where = f"actions.{place}.parameters.network"
            yield misnamed("the container is not on this network", where, network, known)


def _of_own_container(rule: Rule, name: str, world: World) -> Iterator[ErrorDetail]:
    """An injector that cuts itself off renews the rule, and nobody can tell it to end it."""
    cut_off = [place for place, action in enumerate(rule.actions) if action.fault == "disconnect"]
    if name == world.own_container and rule.where.site in (None, HUB_SCOPE) and cut_off:
        yield ErrorDetail(
            code=ErrorCode.NOT_ALLOWED,
            message="the injector would cut itself off, and could not be told to end it",
            field=f"actions.{cut_off[0]}.fault",
            value="disconnect",
            allowed="what ends with the injector's lease, such as stop or pause",
        )


def _of_code(code: str, rule: Rule, world: World) -> Iterator[ErrorDetail]:
    try:
        parameters = parameters_of(code, world.archives)
    except Unknown as error:
        detail = misnamed(str(error), "event.code", error.name, error.known)
        module = code.partition(":")[0]
        shown = error.known if error.name == module else [f"{module}:{name}" for name in error.known]
        yield detail.model_copy(update={"value": code, "allowed": _short(shown)})
        return
    if parameters is not None:
        yield from _of_arguments(rule, parameters)


def _of_arguments(rule: Rule, parameters: frozenset[str]) -> Iterator[ErrorDetail]:
    """Arguments that the condition names and the function does not have."""
    try:
        paths = compile_condition(rule.condition).paths
    except TowpathError:
        return  # Said already.
    named = {str(path[1]) for path in paths if path[0] == "args" and len(path) > 1}
    for name in sorted(named - parameters):
        yield misnamed(f"the function has no parameter `{name}`", "condition", name, sorted(parameters))


def _short(names: list[str]) -> list[str]:
    return names if len(names) <= _SHOWN else [*names[:_SHOWN], f"… and {len(names) - _SHOWN} more"]


def _of_where(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    where = rule.where
    known: Mapping[str, tuple[str | None, list[str], ErrorCode]] = {
        "site": (where.site, world.scopes, ErrorCode.UNKNOWN_SITE),
        "process": (where.process, sorted(world.processes), ErrorCode.INVALID),
        "job": (where.job, sorted(world.jobs), ErrorCode.UNKNOWN_JOB),
    }
    for name, (value, names, code) in known.items():
        if value is not None and value not in names:
            yield misnamed(f"there is no such {name}", f"where.{name}", value, names, code)


def _of_scopes(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    """Scopes that the condition asks about."""
    try:
        shared = compile_condition(rule.condition).shared
    except TowpathError:
        return  # Said already.
    for scope in sorted({key.partition("(")[2].removesuffix(")") for key in shared}):
        if scope not in (OWN_SITE, *world.scopes):
            yield misnamed(
                "there is no such scope",
                "condition",
                scope,
                [OWN_SITE, *world.scopes],
                ErrorCode.UNKNOWN_SITE,
            )
