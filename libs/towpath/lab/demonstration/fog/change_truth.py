"""The verdict on a pipeline that was changed under load: which event met which version of a job.

Each job is judged by what its inputs hold. What is decided while events flow is seen in what was received: C
writes the first events to its old topic and all others to the new one, and B takes what its input held when
the change came, and whatever it went on to take until it was gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.checker.identity import IdentityOf, SerialIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.job import JobSpec
from towpath.lab.harness.judge import JobTruth, StoredInput, identity_for

CLEANING, LATE, FORWARDING, ADDED, HOURLY = (
    "clean-jfk",
    "late-jfk",
    "forward-jfk",
    "plausible-jfk",
    "hourly-jfk",
)
"""The paper's A, B, C, C2 and D."""


@dataclass(frozen=True)
class ChangeVerdict:
    """The verdict on all jobs, and how the redirected job divided its events."""

    verdict: Verdict
    old_topic: int
    """Events that went to the old topic."""
    new_topic: int


def identity_of_jobs(specs: Iterable[JobSpec]) -> IdentityOf:
    """Return the identity that tells results of all these jobs apart."""
    identities = {spec.name: identity_for(spec) for spec in specs}
    return lambda body: identities[body["job"]](body)


def judge_change(
    specs: Mapping[str, JobSpec],
    inputs: Mapping[str, StoredInput],
    held: int,
    observations: Sequence[ReceivedMessage],
    old_topic: str,
) -> ChangeVerdict:
    """Judge all jobs, each by the input it had, before and after the change together.

    `held` is the newest serial number in the input of the removed job (B) when the change came. Results on
    the wrong side of the change are wrong.
    """
    received: defaultdict[str, list[ReceivedMessage]] = defaultdict(list)
    for each in observations:
        received[each.body.get("job", "")].append(each)
    until = max([held, *_serials(received[LATE])])
    removed = inputs[LATE]
    inputs = {**inputs, LATE: replace(removed, events=[e for e in removed.events if e.serial <= until])}
    verdict = Verdict(unexpected=len(received.pop("", ())))
    for job, spec in specs.items():
        verdict.add(JobTruth.of(spec, [inputs[job]]).verdict(received[job]))
    forwarded = received[FORWARDING]
    old = _serials(o for o in forwarded if o.topic == old_topic)
    new = _serials(o for o in forwarded if o.topic != old_topic)
    for serial in sorted(old):
        if new and serial > min(new):
            verdict.wrong += 1
            verdict.example(
                "wrong", lambda serial=serial: f"event {serial} on the old topic, after the change"
            )
    return ChangeVerdict(verdict, len(old), len(new))


def _serials(results: Iterable[ReceivedMessage]) -> set[int]:
    return {o.identity.serial for o in results if isinstance(o.identity, SerialIdentity)}
