"""Duties of the protocol that a simulated party can be made to neglect, one by one.

Each was once a hole, or is the plausible way to build the part. A check of the tables that does not see
what follows from a weakness is worth nothing: tests switch each on and look for the violation.
"""

from __future__ import annotations

from enum import StrEnum


class Violation(AssertionError):
    """An invariant of the protocol does not hold."""


class Weakness(StrEnum):
    """A duty that a party neglects."""

    SHADOW_OF_ANYBODY = "shadow-of-anybody"
    """Output site: `DropShadow` deletes the job's shadow, no matter which operation opened it."""
    DROP_AT_EQUAL_EPOCH = "drop-at-equal-epoch"
    """Output site: `SetEpoch` with a settlement and the present epoch also deletes a later shadow."""
    REPLACE_NEWER_SHADOW = "replace-newer-shadow"
    """Output site: `OpenShadow` replaces a shadow of higher epochs."""
    REOPEN_FROZEN_SHADOW = "reopen-frozen-shadow"
    """Output site: `OpenShadow` takes a shadow that is being settled for one of other epochs."""
    PLAIN_SET_EPOCH_SETTLES_NOTHING = "plain-set-epoch-settles-nothing"
    """Output site: `SetEpoch` without a settlement leaves in the shadow what was diverted there."""
    SETTLE_BY_MEMORY = "settle-by-memory"
    """Output site: what is taken over is compared only with the ids that the server remembers."""
    DECIDE_AGAIN = "decide-again"
    """Monitor: the cut is where the source stands when it is asked, not where the log says."""
    FORWARD_BY_MEMORY = "forward-by-memory"
    """Monitor: forwards everything from the beginning after a restart, without reading the output."""
    PUBLISH_BY_MEMORY = "publish-by-memory"
    """Job: only its first micro-batch after a start is compared with what the output holds."""
    CUT_AGAIN = "cut-again"
    """Job: a micro-batch that was interrupted is planned again, not repeated as it was."""
    RESUME_TWICE = "resume-twice"
    """Target: a job that runs is put back by a repeated `ResumeJob`."""
    RESET_ANY_OPERATION = "reset-any-operation"
    """Agent: obeys `ResetRole` even without a role in that very operation."""
    REPLACE_UNSETTLED_SHADOW = "replace-unsettled-shadow"
    """Output site: `OpenShadow` replaces a shadow before what was diverted there is in the output."""
    SETTLE_ANOTHERS_SHADOW = "settle-anothers-shadow"
    """Output site: a settlement of an epoch that the shadow does not keep leaves what was diverted there."""
    HALF_SETTLED_IS_SETTLED = "half-settled-is-settled"
    """Output site: a shadow counts as settled as soon as the output is past the epochs it keeps."""
