"""The verdict on the job whose windows lie in processing time: they must partition what it read."""

from __future__ import annotations

import json

import pandas as pd

from towpath.bus import Bus
from towpath.checker.identity import RangeIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges
from towpath.checker.verdict import Verdict
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import ProcessingWindow
from towpath.streams.pages import last_serial, read_after


async def last_input(bus: Bus, spec: JobSpec) -> int:
    """Newest serial number of what the job reads."""
    site, stream = _input(spec)
    return await last_serial(bus.connection, site, stream)


async def judge_pace(bus: Bus, spec: JobSpec, observations: list[ReceivedMessage]) -> Verdict:
    """Compare the job's windows with its input, which is read back from the stream it came from."""
    assert isinstance(spec.operator, ProcessingWindow)
    site, stream = _input(spec)
    stored = await read_after(bus.connection, site, stream, 0)
    rows = [{"serial": message.serial, **json.loads(message.body)["values"]} for message in stored]
    return judge_ranges(
        pd.DataFrame(rows),
        [o for o in observations if isinstance(o.identity, RangeIdentity)],
        job=spec.name,
        key=spec.operator.key,
        aggregates=spec.operator.aggregates,
        after=0,
        through=stored[-1].serial if stored else 0,
    )


def covered(observations: list[ReceivedMessage]) -> int:
    """The serial number up to which windows have come."""
    return max((o.identity.through for o in observations if isinstance(o.identity, RangeIdentity)), default=0)


def _input(spec: JobSpec) -> tuple[str, str]:
    """Site and stream of the job's one input, which is the output of the airport's cleaning job."""
    [entry] = spec.inputs
    return entry.site, output_stream(f"clean-{entry.site}")
