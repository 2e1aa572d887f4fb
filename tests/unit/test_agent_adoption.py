"""How a site makes the state that arrived a job's checkpoint, also when it is killed meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from towpath.agent import assignments
from towpath.agent.assignments import AssignmentStore
from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

ASSIGNMENT = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
JOB = ASSIGNMENT.spec.name
METADATA = Path("state/0/_metadata/v2/0")


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def store(tmp_path: Path) -> AssignmentStore:
    """A site with an older checkpoint of the job, at which newer state has arrived."""
    made = AssignmentStore(tmp_path, SPARK_CHECKPOINTS)
    write(made.checkpoint(ASSIGNMENT) / "offsets" / "0", "old")
    write(made.incoming(JOB) / "offsets" / "1", "new")
    schema = {"stateStoreInfo": [{"stateSchemaFilePaths": ["file:/elsewhere/state/0/schema"]}]}
    write(made.incoming(JOB) / METADATA, json.dumps(schema))
    return made


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def adopted(store: AssignmentStore) -> bool:
    """Whether the job's checkpoint is what arrived, and fits its place."""
    checkpoint = store.checkpoint(ASSIGNMENT)
    (schema,) = json.loads((checkpoint / METADATA).read_text())["stateStoreInfo"]
    return (
        [path.name for path in (checkpoint / "offsets").iterdir()] == ["1"]
        and schema["stateSchemaFilePaths"] == [f"file:{checkpoint}/state/0/schema"]
        and not store.incoming(JOB).exists()
    )


def arrived(store: AssignmentStore) -> str:
    return digest_of_inventory(inventory(store.incoming(JOB)))


MOMENTS = ["removal", "half a removal", "digest", "move", "relocation", "end"]


def kill_at(moment: str, patch: pytest.MonkeyPatch) -> None:
    """Let the process be killed before something is done; or in the midst of it, or after it."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    def remove_half(path: Path) -> None:
        (path / "offsets" / "0").unlink()
        raise Killed

    match moment:
        case "removal" | "half a removal":
            patch.setattr(assignments.shutil, "rmtree", die if moment == "removal" else remove_half)
        case "digest":
            patch.setattr(assignments, "write_atomically", die)
        case "move":
            patch.setattr(Path, "rename", die)
        case "relocation":
            patch.setattr(SPARK_CHECKPOINTS, "relocate", die)
        case _:
            pass


@pytest.mark.parametrize("moment", MOMENTS)
def test_arrived_state_when_the_agent_is_killed_at_any_moment_then_is_adopted_by_the_repetition(
    store: AssignmentStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    digest = arrived(store)
    with monkeypatch.context() as patch:
        kill_at(moment, patch)
        if moment == "end":
            store.adopt_incoming(ASSIGNMENT, digest)
        else:
            with pytest.raises(Killed):
                store.adopt_incoming(ASSIGNMENT, digest)
    assert store.adopt_incoming(ASSIGNMENT, digest)
    assert adopted(store)


def test_arrived_state_when_it_is_not_what_was_sent_then_the_checkpoint_stays(store: AssignmentStore) -> None:
    assert not store.adopt_incoming(ASSIGNMENT, "another digest")
    assert (store.checkpoint(ASSIGNMENT) / "offsets" / "0").read_text() == "old"


def test_arrived_state_when_a_later_migration_sends_other_state_then_an_older_checkpoint_does_not_count(
    store: AssignmentStore,
) -> None:
    first = arrived(store)
    assert store.adopt_incoming(ASSIGNMENT, first)
    write(store.incoming(JOB) / "offsets" / "2", "newer")
    second = arrived(store)
    assert store.adopt_incoming(ASSIGNMENT, second)
    assert not store.adopt_incoming(ASSIGNMENT, first)
