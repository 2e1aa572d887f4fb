"""From a scenario to an experiment that Chaos Toolkit validates and runs.

What an experiment has no place for (mesh, jobs, load, phases, expectations) stands in an extension called
`towpath`; Chaos Toolkit carries it along and does not look at it.
"""

from __future__ import annotations

import sys
from typing import Any

from towpath.contracts.scenario import (
    LagProbe,
    LatencyProbe,
    MetricProbe,
    OutputGapProbe,
    Probe,
    RestProbe,
    Scenario,
    SiteProbe,
    Step,
    ThroughputProbe,
)
from towpath.lab.scenarios.checking import rules_of
from towpath.lab.scenarios.probes import limits, title
from towpath.lab.scenarios.timeline import what_of

VERSION = "1.0.0"
EXTENSION = "towpath"
ACTIONS = "towpath.lab.scenarios.chaostoolkit.actions"
PROBES = "towpath.lab.scenarios.chaostoolkit.probes"
API, TOKEN = "towpath_api", "token"

EXTENDED = ("mesh", "jobs", "pipeline", "load", "phases", "expect", "collect", "vary")
"""Fields of a scenario that stand in the extension."""

ORDER = "order"
"""Field of the extension: which step of the scenario each step of the method is, if not in its order."""

FUNCTIONS = {
    "load": "load_rules",
    "unload": "unload_rules",
    "migrate": "migrate",
    "deploy": "deploy",
    "update": "update",
    "scale": "scale",
    "apply": "apply",
    "remove": "remove",
    "node": "node",
}
"""Action of a step → function of `ACTIONS`."""

WRAPPED = {"load": "rules", "unload": "names", "deploy": "job", "apply": "spec"}
"""Actions whose content is one argument, under this name; of the others each field is one."""

Document = dict[str, Any]


def exported(scenario: Scenario) -> Document:
    """The experiment of a scenario, as plain data."""
    content = scenario.model_dump(mode="json", exclude_unset=True)
    asks_rest = any(isinstance(probe, RestProbe) for probe in scenario.steady_state)
    # Only where it is used: Chaos Toolkit wants every secret to be there.
    secrets = {"secrets": {EXTENSION: {TOKEN: {"type": "env", "key": "TOWPATH_TOKEN"}}}} if asks_rest else {}
    order = _in_time(scenario)
    extension = {name: content[name] for name in EXTENDED if name in content}
    if order != sorted(order):
        extension[ORDER] = order
    return {
        "version": VERSION,
        "title": scenario.name,
        "description": scenario.description or scenario.name,
        "tags": ["towpath"],
        "configuration": {
            "towpath_home": {"type": "env", "key": "TOWPATH_HOME", "default": ""},
            API: {"type": "env", "key": "TOWPATH_API", "default": "http://127.0.0.1:8080"},
        },
        **secrets,
        "extensions": [{"name": EXTENSION, **extension}],
        "steady-state-hypothesis": {
            "title": "Steady state",
            "probes": [_probe(probe) for probe in scenario.steady_state],
        },
        "method": _method(scenario),
        "rollbacks": _rollbacks(scenario),
    }


def _in_time(scenario: Scenario) -> list[int]:
    """Positions of the steps, earliest first. What waits for an event does so from the beginning."""
    return sorted(range(len(scenario.timeline)), key=lambda i: scenario.timeline[i].at or 0.0)


def _method(scenario: Scenario) -> list[Document]:
    """Steps in order of time, each with the pause before it."""
    actions: list[Document] = []
    now = 0.0
    for position in _in_time(scenario):
        step = scenario.timeline[position]
        action = _action(position, step)
        if step.at is not None and step.at > now:
            action["pauses"] = {"before": round(step.at - now, 6)}
            now = step.at
        actions.append(action)
    return actions


def _action(position: int, step: Step) -> Document:
    action: Document = {"type": "action", "name": f"{position + 1}: {step.action} {what_of(step)}"}
    if step.process is not None:
        run = step.process
        provider = {"type": "process", "path": run.path, "arguments": run.arguments, "timeout": run.timeout_s}
        action["provider"] = provider
    else:
        arguments = _arguments(step)
        action["provider"] = {
            "type": "python",
            "module": ACTIONS,
            "func": FUNCTIONS[step.action],
            "arguments": arguments,
        }
        # What comes next does not wait for it, as in a scenario.
        action["background"] = True
    if step.on is not None:
        action["provider"]["arguments"]["on"] = step.on.model_dump(mode="json", exclude_unset=True)
    return action


def _arguments(step: Step) -> Document:
    content = step.model_dump(mode="json", exclude_unset=True)[step.action]
    wrapper = WRAPPED.get(step.action)
    return {wrapper: content} if wrapper is not None else dict(content)


def _rollbacks(scenario: Scenario) -> list[Document]:
    names = list(dict.fromkeys(rule.name for rule in rules_of(scenario)))
    if not names:
        return []
    provider = {
        "type": "python",
        "module": ACTIONS,
        "func": FUNCTIONS["unload"],
        "arguments": {"names": names},
    }
    return [{"type": "action", "name": "unload all rules", "provider": provider}]


def _probe(probe: Probe) -> Document:
    head: Document = {"type": "probe", "name": title(probe)}
    if isinstance(probe, RestProbe):
        provider: Document = {
            "type": "http",
            "url": f"${{{API}}}{probe.path}",
            "method": "GET",
            "headers": {"Authorization": f"Bearer ${{{TOKEN}}}"},
            "secrets": [EXTENSION],
        }
        return head | {"tolerance": probe.status, "provider": provider}
    provider = {
        "type": "python",
        "module": PROBES,
        "func": probe.probe,
        "arguments": asked(probe),
    }
    return head | {"tolerance": _tolerance(probe), "provider": provider}


def asked(probe: Probe) -> Document:
    """What is measured, without what the tolerance says."""
    said = {"probe", "within_percent", "at_most_s", "at_most_events", "at_least", "at_most", "status"}
    return probe.model_dump(mode="json", exclude_unset=True, exclude=said)


def _tolerance(probe: Probe) -> Any:
    match probe:
        case SiteProbe():
            return True
        case ThroughputProbe() | OutputGapProbe() | LatencyProbe() | LagProbe() | MetricProbe():
            low, high = limits(probe)
            largest = sys.float_info.max
            return {"type": "range", "range": [max(low, -largest), min(high, largest)]}
    raise AssertionError(f"no tolerance for {probe}")
