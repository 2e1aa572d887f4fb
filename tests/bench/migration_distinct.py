"""A job that remembers every token it has seen, without end. Spark only looks up the tokens that arrive.

With windows, Spark scans the whole state in every micro-batch for windows to close. A gigabyte of them alone
slows two runs of a job that share two cores. This job has no scans, so the migration's own cost remains.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import reports
from benchmark import EDGE
from load import LoadSpec
from load_process import send
from measured_mesh import MeasuredMesh, until
from migration_stateful import CLOSE_S, STORE_S, StatefulJob
from natsrpy.js import JetStreamMessage

from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import FieldType, Python

CODE = Path(__file__).with_name("user_code")

EVERY = 100
"""Reports of the backlog per result: enough results to notice a lost state."""

FIRST_CHANGE = 500_000_000
"""First number of the reports sent while the job moves, far from those of the backlog."""

CHANGES_APART = 10_000_000
SLICE_MS = 200
"""The same value as in the user code, which imports nothing from here."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DistinctReports(StatefulJob):
    """The first report of each token, and of each slice of time: results in every micro-batch."""

    prefix = "distinct"

    def __init__(self, rate: int, megabytes: int) -> None:
        super().__init__(rate, megabytes)
        self._changes = itertools.count(FIRST_CHANGE, CHANGES_APART)
        self._filled_until = 0
        """Serial number of the backlog's last report."""
        self._shown = 0
        """Results of the backlog."""
        self._truth: dict[Identity, dict[str, str]] = {}

    @property
    def keys(self) -> int:
        """One for each report of the backlog."""
        return self._backlog

    def operator(self, mesh: MeasuredMesh) -> Python:
        """Copy the user code into the mesh's folder and return its operator."""
        shutil.copytree(CODE, mesh.home.artefacts / CODE.name, dirs_exist_ok=True)
        shared = json.loads(reports.template(reports.SIZE))["token"]
        return Python(
            fields={"n": FieldType.LONG, "at": FieldType.TIMESTAMP, "token": FieldType.STRING},
            entry="distinct:first_reports",
            artefact=CODE.name,
            parameters={"shared": shared, "every": EVERY},
            identity=["report"],
        )

    async def start(self, mesh: MeasuredMesh, after: int) -> JobSpec:
        job = await super().start(mesh, after)
        self._filled_until = await mesh.last_serial(EDGE.name)
        self._shown = await mesh.results(job)
        return job

    def loads(self, mesh: MeasuredMesh) -> list[LoadSpec]:
        return [self.main_load(mesh)]

    async def while_moving(self, mesh: MeasuredMesh) -> None:
        """Send tokens that were never seen."""
        await send(self.changes(mesh, first=next(self._changes)), STORE_S)

    async def close(self, mesh: MeasuredMesh, job: JobSpec, after: int) -> None:
        """Send the whole backlog once more: tokens that the state still has give no result."""
        site = EDGE.name
        await send(self.backlog(mesh), STORE_S)
        last = await mesh.last_serial(site)

        async def processed() -> bool:
            return await mesh.processed(job) >= last

        await until(processed, CLOSE_S, f"{job.name} at {last}")
        pages = await mesh.read(site, IN_STREAM, self._filled_until, last, _columns)
        self._truth = truth_of(pd.concat(pages, ignore_index=True), job.name)
        await mesh.counted(job, self._shown + len(self._truth), CLOSE_S)

    def judged(self, job: JobSpec, observations: Sequence[ReceivedMessage]) -> Verdict:
        return judge(self._truth, observations, order_key=in_order_of_its_sender)


def in_order_of_its_sender(identity: Identity) -> tuple[Hashable, Any]:
    """Return the sender of a result, and its place in that sender's order.

    Slices come from the main load, other results from the changes. There is no order between the two senders.
    """
    assert isinstance(identity, WindowIdentity)
    return identity.end - identity.start == timedelta(milliseconds=SLICE_MS), identity.start


def truth_of(events: pd.DataFrame, job: str) -> dict[Identity, dict[str, str]]:
    """Results of what came after the backlog: columns `at` (milliseconds), `number` and `is_shared`."""
    slices = events.loc[events["is_shared"], "at"] // SLICE_MS * SLICE_MS
    truth = dict(_result(job, at, SLICE_MS) for at in slices.unique())
    numbers = events["number"] + reports.FIRST_NUMBER
    is_shown = ~events["is_shared"] & (events["number"] >= FIRST_CHANGE) & (numbers % EVERY == 0)
    shown: Iterable[tuple[int, int]] = zip(events.loc[is_shown, "at"], numbers[is_shown], strict=True)
    return truth | dict(_result(job, at, number) for at, number in shown)


def _result(job: str, begin_ms: int, length_ms: int) -> tuple[Identity, dict[str, str]]:
    begin = _EPOCH + timedelta(milliseconds=int(begin_ms))
    identity = WindowIdentity(job, begin, begin + timedelta(milliseconds=int(length_ms)), ())
    return identity, {"report": f"{begin_ms}/{length_ms}"}


def _columns(page: list[JetStreamMessage]) -> pd.DataFrame:
    payloads = [message.payload for message in page]
    return pd.DataFrame(
        {
            "at": reports.times_of(payloads).astype("datetime64[ms]").astype(np.int64),
            "number": reports.numbers_of(payloads),
            "is_shared": [len(payload) == reports.SIZE for payload in payloads],
        }
    )
