"""Which files of a state store make one version of it, by the formats that Spark writes."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from towpath.checkpoints.layout import inventory
from towpath.checkpoints.lineage import Outdated, Version, lineage_of, needed
from towpath.checkpoints.snapshot import snapshot

PLAIN = 0x15
"""Token of a block that is stored as it is."""
PACKED = 0x25


def block(content: bytes, token: int) -> bytes:
    body = content if token == PLAIN else pa.compress(content, codec="lz4_raw", asbytes=True)
    return b"LZ4Block" + struct.pack("<BIII", token, len(body), len(content), 0) + body


def utf(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


def changelog(store: Path, version: int, since: int, form: str = "v3", token: int = PACKED) -> None:
    """A changelog whose lineage begins with version `since`."""
    lineage = [{"version": n, "checkpointUniqueId": f"id{n}"} for n in range(since, version)]
    content = utf(form) + utf(json.dumps(lineage)) + b"\xff\xff\xff\xff" + b"changes" * 10
    store.mkdir(parents=True, exist_ok=True)
    (store / f"{version}_id{version}.changelog").write_bytes(block(content, token) + block(b"", PLAIN))


def archive(store: Path, version: int, *parts: str) -> None:
    """A snapshot made of files under SSTs."""
    (store / "SSTs").mkdir(parents=True, exist_ok=True)
    listed = {"sstFiles": [{"dfsSstFileName": part, "localFileName": "1.sst"} for part in parts]}
    with zipfile.ZipFile(store / f"{version}_id{version}.zip", "w") as file:
        file.writestr("metadata", "v1\n" + json.dumps(listed))
    for part in parts:
        (store / "SSTs" / part).write_text(part)


def commit(checkpoint: Path, batch: int) -> None:
    ids = {"stateUniqueIds": {"0": [[f"id{batch + 1}"]]}}
    for name, text in (("commits", f"v2\n{json.dumps(ids)}"), ("offsets", "v1\n{}\n{}")):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / str(batch)).write_text(text)


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
