"""Adopt what a site has adjusted itself while the hub was out of reach.

A heartbeat then has a newer version of a job than the registry: the same epoch, and more adjustments. An
operation takes the site's description over. Until it has ended, other operations on the job are refused as
`busy`.

If the job was changed at the hub, too, the hub's change counts. Its epoch or revision is greater, so the
site takes it, and publishes what it drops (`AdjustmentLost`). The same happens to a description that no site
may make by itself.

What happens when

- the site's answer is lost: nothing is written, and the next look asks again.
- the coordinator dies: the journal has the operation, and its one write may be repeated.
- the heartbeat is late: the site, asked for its description, has none that is newer.
- the site adjusts the job once more meanwhile: its next heartbeat has a newer version again.
- the site is a zombie: its epoch is lower than the registry's, so it has nothing newer.
- the site forges a description: it is judged by the rules of `towpath.composition.adjustments`, and concerns
  a job of that site alone.
"""

from __future__ import annotations

import logging

from towpath.composition.adjustments import adjusted, inputs_of
from towpath.contracts.commands import OperationKind, UpdateJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.site_commands import ReportAssignment
from towpath.coordinator.jobs.plans import Nothing
from towpath.coordinator.situation import Situation, is_newer, record_of
from towpath.protocols.record import JobEntry, OperationRecord

log = logging.getLogger(__name__)

ANSWER_S = 5.0


async def plan_adoption(command: UpdateJob, situation: Situation) -> OperationRecord:
    """Plan that the registry adopts a site's adjustments. Raises `Nothing` when it knows them.

    `command` has the registry's present description: no one has asked for the operation.
    """
    job = command.spec.name
    entry = (await situation.registry.jobs()).get(job)
    if entry is None:
        raise Nothing
    asked = ReportAssignment(site=entry.site, operation=command.id, job=job)
    found = await situation.bus.request(asked, deadline_s=ANSWER_S)
    if not is_newer(found.version, entry):
        raise Nothing
    return record_of(
        command,
        OperationKind.UPDATE,
        job,
        before=entry,
        after=adopted(entry, found),
        by_site=True,
    )


def adopted(entry: JobEntry, found: Assignment) -> JobEntry:
    """Return the job as its site has it; or as it was, under a revision that replaces the site's."""
    try:
        spec = adjusted(found.spec, entry.spec, entry.site)
    except TowpathError as error:
        log.error("%s has changed %s as only the hub may: %s", entry.site, entry.spec.name, error)
        return entry.model_copy(update={"revision": found.revision + 1})
    return entry.model_copy(
        update={
            "spec": spec,
            "inputs": inputs_of(spec, entry.inputs),
            "revision": found.revision,
            "adjustments": found.adjustments,
        }
    )
