"""Which streams of others a site may read, from what the registry holds."""

from __future__ import annotations

import pytest
from operation_trial import entry, operation

from towpath.coordinator.reading import read_by

OUTPUTS = {("out", name) for name in ("OUT_hourly-jfk", "REJECTED_hourly-jfk", "SHADOW_hourly-jfk")}
NEEDED = {("jfk", "OUT_clean"), *OUTPUTS}


@pytest.mark.parametrize(("reader", "may_read"), [("cloud", NEEDED), ("lga", set())])
def test_site_when_it_runs_a_job_then_reads_its_inputs_and_outputs_alone(
    reader: str, may_read: set[tuple[str, str]]
) -> None:
    assert {*read_by(reader, [entry(site="cloud")], [], [])} == may_read


@pytest.mark.parametrize(
    ("reader", "may_read"),
    [("jfk", NEEDED), ("cloud", NEEDED), ("lga", set())],
    ids=["source", "target", "other"],
)
def test_site_when_it_takes_part_in_a_migration_then_reads_what_the_job_reads(
    reader: str, may_read: set[tuple[str, str]]
) -> None:
    assert {*read_by(reader, [], [operation("handover")], [])} == may_read
