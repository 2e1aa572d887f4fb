"""Undoes what is held from what was written down of it, in any process."""

from __future__ import annotations

import logging
from random import Random

from towpath.contracts.errors import TowpathError
from towpath.lab.faults.registry import Fault, HeldFault, StrikingFault
from towpath.lab.faults.rule_actions import made
from towpath.lab.guard.held_record import Held
from towpath.lab.guard.targets import for_release, target_of
from towpath.mesh.home import Home

log = logging.getLogger(__name__)


def undo(home: Home, held: Held, fault: Fault | None = None) -> None:
    """Release it; `fault` is what holds it, where this process does. Raises whatever the fault raises."""
    fault = fault or _made_again(held)
    target = for_release(target_of(home, held.target), held)
    if isinstance(fault, HeldFault):
        fault.release(target)
    elif isinstance(fault, StrikingFault):
        fault.finish(target)
    log.info("rule %s: %s of %s ended", held.key.rule, held.action.fault, held.target.name)


def _made_again(held: Held) -> Fault | None:
    """The fault of an earlier process; None when there is no such fault any more."""
    try:
        return made(held.action, held.target.target.value, Random(0))
    except TowpathError as error:
        log.error("what rule %s has done cannot be undone: %s", held.key.rule, error)
        return None
