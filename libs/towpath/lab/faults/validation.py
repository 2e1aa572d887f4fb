"""Checks whether a rule can be loaded into a mesh: all that is wrong with it, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.faults import OnTarget, Rule, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.conditions import scope_of_figure
from towpath.lab.faults.rule_actions import expressions_of
from towpath.lab.faults.rule_form import form_problems, misnamed
from towpath.lab.faults.vocabulary import OWN_SITE
from towpath.lab.faults.world import (
    World,
    looking_processes,
    passing_processes,
    runs_python,
)


def problems(rule: Rule, world: World) -> list[ErrorDetail]:
    """Return all that is wrong with a rule in a mesh; an empty list when it can be loaded."""
    return [
        *form_problems(rule),
        *_of_event(rule, world),
        *_of_where(rule, world),
        *_of_scopes(rule, world),
    ]


def targets(kind: TargetKind, world: World) -> list[str]:
    """Return all targets of a kind, by name."""
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


def _of_event(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    match rule.event:
        case OnTarget(target=TargetKind.CONTAINER) if world.without_daemon is not None:
            yield world.without_daemon.model_copy(update={"field": "event.target", "value": "container"})
        case OnTarget(target=TargetKind.LINK) if not world.links:
            yield ErrorDetail(
                code=ErrorCode.NOT_ALLOWED,
                message="this mesh emulates no links; switch them on with `towpath up --emulate-links`",
                field="event.target",
                value=TargetKind.LINK.value,
                allowed=[kind.value for kind in TargetKind if kind is not TargetKind.LINK],
            )
        case OnTarget(target=kind, name=name):
            known = targets(kind, world)
            if name not in known:
                yield misnamed(f"there is no such {kind.value}", "event.name", name, known)
            elif kind is TargetKind.CONTAINER:
                yield from _of_networks(rule, sorted(world.networks.get(name, ())))
                yield from _of_own_container(rule, name, world)


def _of_networks(rule: Rule, known: list[str]) -> Iterator[ErrorDetail]:
    """Networks that actions name and that the rule's container is not on."""
    for place, action in enumerate(rule.actions):
        network = action.parameters.get("network")
        if isinstance(network, str) and network not in known:
            where = f"actions.{place}.parameters.network"
            yield misnamed("the container is not on this network", where, network, known)


def _of_own_container(rule: Rule, name: str, world: World) -> Iterator[ErrorDetail]:
    """An injector that cuts itself off renews the rule, and no command to end it comes through."""
    cut_off = [place for place, action in enumerate(rule.actions) if action.fault == "disconnect"]
    if name == world.own_container and rule.where.site in (None, HUB_SCOPE) and cut_off:
        yield ErrorDetail(
            code=ErrorCode.NOT_ALLOWED,
            message="the injector would cut itself off, and could not be told to end it",
            field=f"actions.{cut_off[0]}.fault",
            value="disconnect",
            allowed="what ends with the injector's lease, such as stop or pause",
        )


def _of_where(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    where = rule.where
    known: Mapping[str, tuple[str | None, list[str], ErrorCode]] = {
        "site": (where.site, world.scopes, ErrorCode.UNKNOWN_SITE),
        "process": (where.process, sorted(world.processes), ErrorCode.INVALID),
        "job": (where.job, sorted(world.jobs), ErrorCode.UNKNOWN_JOB),
    }
    wrong = [
        misnamed(f"there is no such {name}", f"where.{name}", value, names, code)
        for name, (value, names, code) in known.items()
        if value is not None and value not in names
    ]
    yield from wrong or _of_idle_places(rule, world)


def _of_idle_places(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    """Places that exist, and where nothing would ever look at the rule."""
    event, where = rule.event, rule.where
    if isinstance(event, OnTarget):
        scope = world.scope_of_target(event)
        if where.site is not None and scope is not None and where.site != scope:
            what = f"the {event.target.value} {event.name} is not there"
            yield misnamed(what, "where.site", where.site, [scope])
        return
    if (where.site is None and where.process is None) or looking_processes(rule, world):
        return
    passing = passing_processes(event, world)
    at_site = [name for name in passing if where.site in (None, world.scope_of(name))]
    if at_site and where.process is not None:
        yield misnamed("the rule is never looked at in this process", "where.process", where.process, at_site)
    else:
        scopes = sorted({world.scope_of(name) for name in passing})
        yield misnamed("no process of this scope looks at the rule", "where.site", where.site or "", scopes)


def _of_scopes(rule: Rule, world: World) -> Iterator[ErrorDetail]:
    """Scopes that expressions ask about."""
    known = [OWN_SITE, *world.scopes]
    for field, expression in expressions_of(rule):
        for scope in sorted({scope_of_figure(key) for key in expression.shared}):
            if scope not in known:
                yield misnamed("there is no such scope", field, scope, known, ErrorCode.UNKNOWN_SITE)
