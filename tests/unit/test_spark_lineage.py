"""Which files of a state store make one version of it, by the formats that Spark writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from spark_checkpoints import PACKED, PLAIN, archive, block, changelog, commit, decompressed, utf

from towpath.checkpoints.inventory import inventory
from towpath.engines.spark.changelog import LONGEST_LINEAGE, Version, lineage_of, write_with_lineage
from towpath.engines.spark.lineage import Outdated, parts_of
from towpath.engines.spark.shipment import SparkShipment, extended
from towpath.engines.spark.snapshot import snapshot


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Snapshots at versions 10 and 20, and changelogs of all versions from 8 to 23."""
    store = tmp_path / "checkpoint/state/0/0"
    for version in range(8, 24):
        changelog(store, version, since=1 if version <= 10 else 10 if version <= 20 else 20)
    archive(store, 10, "a.sst", "b.sst")
    archive(store, 20, "b.sst", "c.sst")
    commit(tmp_path / "checkpoint", 22)
    return store


def needed(store: Path, number: int, identifiers: set[str]) -> set[str] | None:
    parts = parts_of(store, number, identifiers)
    return None if parts is None else parts.names


def names(*numbers: int) -> set[str]:
    return {f"{n}_id{n}.changelog" for n in numbers}


@pytest.mark.parametrize("token", [PLAIN, PACKED])
@pytest.mark.parametrize("form", ["v3", "v4"])
def test_lineage_when_read_from_a_changelog_then_begins_with_a_snapshot(
    tmp_path: Path, form: str, token: int
) -> None:
    changelog(tmp_path, 23, since=20, form=form, token=token)
    assert lineage_of(tmp_path / "23_id23.changelog") == [Version(n, f"id{n}") for n in (20, 21, 22)]


def test_state_when_there_is_a_snapshot_then_is_that_and_what_changed_since(store: Path) -> None:
    parts = {"20_id20.zip", "SSTs/b.sst", "SSTs/c.sst"}
    assert needed(store, 23, {"id23", "of another store"}) == names(20, 21, 22, 23) | parts
    assert needed(store, 20, {"id20"}) == names(20) | parts


def test_state_when_a_snapshot_is_of_another_attempt_then_is_made_of_the_one_before(store: Path) -> None:
    (store / "20_id20.zip").rename(store / "20_other.zip")
    changelog(store, 23, since=10)
    assert needed(store, 23, {"id23"}) == names(*range(10, 24)) | {"10_id10.zip", "SSTs/a.sst", "SSTs/b.sst"}


def test_state_when_there_was_never_a_snapshot_then_is_all_changelogs(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        changelog(tmp_path, version, since=1)
    assert needed(tmp_path, 2, {"id2"}) == names(1, 2)


@pytest.mark.parametrize("lacking", ["23_id23.changelog", "21_id21.changelog", "20_id20.zip"])
def test_state_when_something_of_it_is_missing_then_nothing_is_said(store: Path, lacking: str) -> None:
    (store / lacking).unlink()
    assert needed(store, 23, {"id23"}) is None


@pytest.mark.parametrize("content", [b"", b"nonsense", block(utf("v1") + b"x", PACKED)])
def test_state_when_a_changelog_is_of_an_unknown_form_then_nothing_is_said(
    store: Path, content: bytes
) -> None:
    (store / "23_id23.changelog").write_bytes(content)
    assert needed(store, 23, {"id23"}) is None


def test_snapshot_when_a_store_has_history_then_leaves_it_behind(store: Path, tmp_path: Path) -> None:
    (store / "_metadata").mkdir()
    (store / "_metadata/schema").write_text("schema")
    copy = tmp_path / "copy"
    assert snapshot(tmp_path / "checkpoint", copy) == 22
    kept = {name.removeprefix("state/0/0/") for name in inventory(copy) if name.startswith("state")}
    parts = {"20_id20.zip", "SSTs/b.sst", "SSTs/c.sst"}
    assert kept == names(20, 21, 22, 23) | parts | {"_metadata/schema"}
    assert inventory(tmp_path / "checkpoint", without=Outdated(tmp_path / "checkpoint", 22)) == inventory(
        copy
    )


def test_snapshot_when_a_commit_names_no_state_then_takes_everything(store: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint/commits/22").write_text("v1\n{}")
    snapshot(tmp_path / "checkpoint", tmp_path / "copy")
    assert inventory(tmp_path / "copy") == inventory(tmp_path / "checkpoint")


def test_changelog_when_given_another_lineage_then_has_the_same_changes_after_it(store: Path) -> None:
    before, after = store / "23_id23.changelog", store / "changed"
    longer = [Version(n, f"id{n}" * 100) for n in range(1, 100)]
    write_with_lineage(before, longer, after)
    assert lineage_of(after) == longer
    assert decompressed(after).endswith(b"\xff\xff\xff\xff" + b"changes" * 10)
    assert len(decompressed(after)) - len(decompressed(before)) > 99 * 200


def test_changelog_when_a_lineage_is_longer_than_one_can_be_then_is_refused(store: Path) -> None:
    longest = [Version(n, f"id{n}") for n in range(LONGEST_LINEAGE + 1)]
    with pytest.raises(ValueError, match="too long"):
        write_with_lineage(store / "23_id23.changelog", longest, store / "changed")


def test_lineage_when_extended_then_leads_back_to_an_older_snapshot(store: Path) -> None:
    def changelog(version: Version) -> Path:
        return store / f"{version.name}.changelog"

    newest = [Version(20, "id20"), Version(21, "id21")]
    found = extended(newest, Version(10, "id10"), changelog)
    assert [version.number for version in found] == list(range(10, 22))
    with pytest.raises(ValueError, match="does not follow"):
        extended(newest, Version(10, "another"), changelog)


def go_on(
    store: Path, shipment: SparkShipment, until: int, snapshot: int, missed: tuple[int, ...] = ()
) -> None:
    """Versions up to `until`, one after another, and a large snapshot among them. What it makes superfluous
    is deleted as soon as it was kept, or missed."""
    old = {path for path in store.rglob("*") if path.is_file()}
    begun = max(int(path.name.partition("_")[0]) for path in store.glob("*.changelog"))
    since = max(int(path.name.partition("_")[0]) for path in store.glob("*.zip"))
    for version in range(begun + 1, until + 1):
        changelog(store, version, since if version <= snapshot else snapshot)
        if version not in missed:
            shipment.keep()
        elif version < snapshot:
            (store / f"{version}_id{version}.changelog").unlink()
    archive(store, snapshot, f"large{snapshot}.sst")
    (store / f"SSTs/large{snapshot}.sst").write_bytes(bytes(100_000))
    for path in old | {store / f"{n}_id{n}.changelog" for n in range(begun + 1, snapshot)}:
        path.unlink(missing_ok=True)
    commit(store.parents[2], until - 1)


def first_shipped(checkpoint: Path) -> SparkShipment:
    """A shipment of version 12, which follows from the snapshot at 10."""
    store = checkpoint / "state/0/0"
    for version in range(8, 13):
        changelog(store, version, since=1 if version <= 10 else 10)
    archive(store, 10, "a.sst", "b.sst")
    commit(checkpoint, 11)
    shipment = SparkShipment(checkpoint, checkpoint.with_name("outgoing"))
    assert shipment.renew() == 11
    return shipment


def test_copy_when_new_snapshots_were_made_meanwhile_then_goes_on_from_the_old_one_again_and_again(
    tmp_path: Path,
) -> None:
    store, shipment = tmp_path / "checkpoint/state/0/0", first_shipped(tmp_path / "checkpoint")
    parts = {"10_id10.zip", "SSTs/a.sst", "SSTs/b.sst"}
    sent: dict[str, str] = {}
    for until, snapshot_at in ((23, 20), (33, 30), (43, 40)):
        go_on(store, shipment, until, snapshot_at)
        assert shipment.renew() == until - 1
        found = needed(shipment.copy / "state/0/0", until, {f"id{until}"})
        assert found == names(*range(10, until + 1)) | parts
        now = {name: digest for name, digest in inventory(shipment.copy).items() if name.startswith("state")}
        assert sent.items() <= now.items(), "what the target has is not sent again"
        sent = now


def test_copy_when_a_changelog_was_missed_then_has_the_new_snapshot(tmp_path: Path) -> None:
    store, shipment = tmp_path / "checkpoint/state/0/0", first_shipped(tmp_path / "checkpoint")
    go_on(store, shipment, 23, 20, missed=(15,))
    shipment.renew()
    found = needed(shipment.copy / "state/0/0", 23, {"id23"})
    assert found == names(*range(20, 24)) | {"20_id20.zip", "SSTs/large20.sst"}


def test_copy_when_only_one_of_two_stores_has_a_new_snapshot_then_the_other_is_as_it_is(
    tmp_path: Path,
) -> None:
    checkpoint, other = tmp_path / "checkpoint", tmp_path / "checkpoint/state/1/0"
    for version in (1, 2):
        changelog(other, version, since=1)
    shipment = first_shipped(checkpoint)
    for version in range(3, 24):
        changelog(other, version, since=1)
    go_on(checkpoint / "state/0/0", shipment, 23, 20)
    shipment.renew()
    assert needed(shipment.copy / "state/1/0", 23, {"id23"}) == names(*range(1, 24))
    assert needed(shipment.copy / "state/0/0", 23, {"id23"}) == names(*range(10, 24)) | {
        "10_id10.zip",
        "SSTs/a.sst",
        "SSTs/b.sst",
    }


def test_copy_when_it_cannot_be_written_then_fails_and_is_not_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipment = first_shipped(tmp_path / "checkpoint")
    go_on(tmp_path / "checkpoint/state/0/0", shipment, 23, 20)
    real = os.link

    def full(source: Path, name: Path) -> None:
        if name.name.startswith("15_") and name.is_relative_to(shipment.copy):
            raise OSError(errno.ENOSPC, "no space left on device")
        real(source, name)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="no space"):
        shipment.renew()


def test_copy_when_the_changelogs_are_larger_than_the_new_snapshot_then_has_that(
    store: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shipment = SparkShipment(checkpoint, tmp_path / "outgoing")
    shipment.renew()
    for version in range(24, 34):
        changelog(store, version, since=20 if version <= 30 else 30)
    archive(store, 30, "c.sst", "d.sst")
    commit(checkpoint, 32)
    shipment.renew()
    found = needed(shipment.copy / "state/0/0", 33, {"id33"})
    assert found == names(*range(30, 34)) | {"30_id30.zip", "SSTs/c.sst", "SSTs/d.sst"}
