"""The copy of a job's state at its standby: whole or none, even if the agent is killed meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from towpath.agent import assignments
from towpath.agent.assignments import AssignmentStore
from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Assignment, DesiredState
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.standby import StandbyCopy
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

OWNED = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
KEPT = OWNED.model_copy(update={"desired": DesiredState.STANDBY})
NEXT = OWNED.model_copy(update={"epoch": OWNED.epoch + 1})
JOB = OWNED.spec.name


class Killed(BaseException):
    """Raised to end the process."""


@pytest.fixture
def store(tmp_path: Path) -> AssignmentStore:
    return AssignmentStore(tmp_path, SPARK_CHECKPOINTS)


def arrive(store: AssignmentStore, text: str) -> StandbyCopy:
    """Let state arrive. Return what its owner says of it."""
    path = store.incoming(JOB) / "offsets" / "0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return StandbyCopy(
        epoch=OWNED.epoch,
        generation=OWNED.generation,
        digest=digest_of_inventory(inventory(store.incoming(JOB))),
        serials={"jfk/clean": 7},
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_copy_when_newer_state_has_arrived_then_takes_the_place_of_the_older(store: AssignmentStore) -> None:
    for text in ("old", "new"):
        assert store.adopt_standby(KEPT, arrive(store, text))
    assert (store.checkpoint(KEPT) / "offsets" / "0").read_text() == "new"
    assert not store.incoming(JOB).exists()


def test_copy_when_the_state_is_not_whole_then_the_older_one_stays(store: AssignmentStore) -> None:
    store.adopt_standby(KEPT, arrive(store, "old"))
    promised = arrive(store, "new")
    arrive(store, "ne")
    assert not store.adopt_standby(KEPT, promised)
    assert (store.checkpoint(KEPT) / "offsets" / "0").read_text() == "old"


@pytest.mark.parametrize("killed_in", ["rmtree", "write_atomically"])
def test_copy_when_the_agent_is_killed_while_it_changes_then_is_whole_or_none(
    store: AssignmentStore, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    store.adopt_standby(KEPT, arrive(store, "old"))
    arrived = arrive(store, "new")

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(assignments.shutil if killed_in == "rmtree" else assignments, killed_in, die)
        with pytest.raises(Killed):
            store.adopt_standby(KEPT, arrived)

    assert store.standby_copy(KEPT) is None
    assert store.adopt_standby(KEPT, arrive(store, "newest"))
    assert store.standby_copy(KEPT) is not None


def test_takeover_when_it_is_repeated_then_the_job_has_the_copy_once(store: AssignmentStore) -> None:
    store.adopt_standby(KEPT, arrive(store, "copied"))
    for _ in range(2):
        store.begin_from_standby(KEPT, NEXT)
    assert (store.checkpoint(NEXT) / "offsets" / "0").read_text() == "copied"
    assert store.standby_copy(KEPT) is None


@pytest.mark.parametrize("what", ["epoch", "generation"])
def test_takeover_when_the_copy_is_of_an_earlier_owner_then_is_refused(
    store: AssignmentStore, what: str
) -> None:
    """It may be of an earlier job of that name."""
    store.adopt_standby(KEPT, arrive(store, "copied"))
    later = KEPT.model_copy(update={what: getattr(KEPT, what) + 1})
    assert store.standby_copy(later) is None
    with pytest.raises(TowpathError):
        store.begin_from_standby(later, NEXT)
