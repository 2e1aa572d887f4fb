"""A copy of a live checkpoint: what belongs to it, and what comes and goes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.checkpoints.inventory import inventory
from towpath.engines.spark.snapshot import snapshot

OFFSETS = 'v1\n{{}}\n{{"serial": {0}}}'


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Micro-batches 0 to 2 are committed, 3 is planned and under way."""
    root = tmp_path / "checkpoint"
    write(root / "metadata", '{"id": "q"}')
    for batch in range(4):
        write(root / "offsets" / str(batch), OFFSETS.format(10 * (batch + 1)))
        write(root / "state/0/0" / f"{batch + 1}_a.changelog", f"changes of {batch}")
    for batch in range(3):
        write(root / "commits" / str(batch))
    write(root / "state/0/0/2_a.zip")
    write(root / "state/0/0/SSTs/000009-a.sst")
    write(root / "commits/.3.tmp")
    write(root / "offsets/.0.crc")
    return root


def test_snapshot_when_state_has_snapshots_then_archives_and_what_they_refer_to_are_there(
    checkpoint: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    snapshot(checkpoint, copy)
    wanted = {name for name in inventory(checkpoint) if name != "offsets/3"}
    assert set(inventory(copy)) == wanted


def test_snapshot_when_a_file_disappears_meanwhile_then_the_others_are_there(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = checkpoint / "state/0/0/1_a.changelog"
    real = Path.mkdir

    def deleting_mkdir(self: Path, *arguments: object, **options: object) -> None:
        gone.unlink(missing_ok=True)
        real(self, *arguments, **options)  # type: ignore[arg-type]

    copy = tmp_path / "copy"
    copy.mkdir()
    listed = gone.exists()
    monkeypatch.setattr(Path, "mkdir", deleting_mkdir)
    snapshot(checkpoint, copy)
    assert listed
    assert "state/0/0/1_a.changelog" not in inventory(copy)
    assert "state/0/0/3_a.changelog" in inventory(copy)


def test_snapshot_when_an_older_copy_is_there_then_it_is_replaced(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    write(copy / "offsets/77")
    snapshot(checkpoint, copy)
    assert "offsets/77" not in inventory(copy)


def test_inventory_when_a_file_was_replaced_then_its_new_digest_is_told(checkpoint: Path) -> None:
    before = inventory(checkpoint)["metadata"]
    (checkpoint / "metadata").unlink()
    write(checkpoint / "metadata", '{"id": "r"}')
    assert inventory(checkpoint)["metadata"] != before


def test_inventory_when_a_job_made_links_then_they_are_none_of_its_state(
    checkpoint: Path, tmp_path: Path
) -> None:
    before = inventory(checkpoint)
    write(tmp_path / "mesh.json", "secret")
    (checkpoint / "state/0/0/9_a.changelog").symlink_to(tmp_path / "mesh.json")
    (checkpoint / "elsewhere").symlink_to(tmp_path)

    assert inventory(checkpoint) == before
    snapshot(checkpoint, tmp_path / "copy")
    assert inventory(tmp_path / "copy").keys() <= before.keys()
