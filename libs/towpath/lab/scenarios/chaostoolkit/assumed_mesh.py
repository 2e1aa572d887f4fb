"""What an experiment from elsewhere takes for granted: the sites and jobs that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from towpath.contracts.faults import TargetKind
from towpath.lab.scenarios.chaostoolkit.exporting import Document
from towpath.mesh.names import SITE_PARTS

_MOVED = ("migrate", "scale", "remove")


def assumed_mesh(document: Document) -> Document:
    """The `mesh` of a scenario whose probes and steps name jobs that it does not deploy."""
    steps = document["timeline"]
    deployed = {step["deploy"].get("name") for step in steps if "deploy" in step}
    deployed |= {
        job.get("name") for step in steps if "apply" in step for job in step["apply"].get("jobs", ())
    }
    sites = set(_sites(document))
    targets = {
        rule["event"].get("target") for rule in _rules(document) if isinstance(rule.get("event"), dict)
    }
    return {
        "jobs": sorted(set(_jobs(document)) - deployed),
        "emulate_links": TargetKind.LINK in targets,
        **({"sites": sorted(sites)} if sites else {}),
    }


def _jobs(document: Document) -> Iterator[str]:
    yield from (probe["job"] for probe in document["steady_state"] if "job" in probe)
    for step in document["timeline"]:
        yield from (step[action]["job"] for action in _MOVED if "job" in (step.get(action) or ()))
        if "update" in step:
            yield step["update"]["spec"]["name"]
    for rule in _rules(document):
        if (rule.get("where") or {}).get("job"):
            yield rule["where"]["job"]


def _sites(document: Document) -> Iterator[str]:
    yield from (probe["site"] for probe in document["steady_state"] if "site" in probe)
    for step in document["timeline"]:
        yield from (v for v in ((step.get("migrate") or {}).get("to"),) if v)
        yield from (v for v in ((step.get("deploy") or {}).get("site"),) if v)
    for rule in _rules(document):
        yield from _sites_of_rule(rule)


def _sites_of_rule(rule: Document) -> Iterator[str]:
    where, event = rule.get("where") or {}, rule.get("event") or {}
    name = str(event.get("name") or "")
    site, _, part = name.rpartition("-")
    if where.get("site") not in (None, "hub"):
        yield where["site"]
    if event.get("target") == TargetKind.LINK or (
        event.get("target") == TargetKind.MACHINE and name != "hub"
    ):
        yield name
    elif part in SITE_PARTS and site:
        yield site


def _rules(document: Document) -> Iterator[dict[str, Any]]:
    for step in document["timeline"]:
        yield from step.get("load") or ()
