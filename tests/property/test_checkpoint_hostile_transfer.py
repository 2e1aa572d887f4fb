"""Whatever a site sends as a checkpoint, the target writes nothing outside of its staging directory."""

from __future__ import annotations

import asyncio
import json
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.checkpoints.manifest import manifest_of
from towpath.checkpoints.receiving import Receiver
from towpath.contracts.errors import ErrorCode, TowpathError

HOSTILE = (
    "../out", "../../out", "/tmp/out", "a/../../out", "a/..", "..", ".", "", "a/./b", "a//b", "a/", "nul\0",
)  # fmt: skip
HONEST = ("metadata", "commits/3", "state/0/0/3.changelog", "a", "a/b")
PATHS = st.sampled_from(HOSTILE + HONEST)
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([-1, 10**12, True, "5", None]))
CHUNKS = st.builds(
    lambda path, offset, data: (path, offset, data),
    PATHS,
    st.one_of(st.integers(-3, 40), st.sampled_from([10**12, "x"])),
    st.binary(max_size=20),
)


def announcement(files: Mapping[str, Any], sizes: Mapping[str, Any]) -> str:
    return json.dumps({"files": files, "sizes": sizes})


def begin(announced: str) -> dict[bytes, bytes]:
    return {b"kind": b"begin", b"generation": b"g1", b"manifest": announced.encode()}


def chunk(path: str, offset: object, data: bytes) -> dict[bytes, bytes]:
    return {
        b"kind": b"chunk",
        b"generation": b"g1",
        b"path": path.encode(),
        b"offset": str(offset).encode(),
        b"data": data,
        b"crc": str(zlib.crc32(data)).encode(),
    }


def taken(receiver: Receiver, entry: dict[bytes, bytes]) -> TowpathError | None:
    """Let a target take an entry. Return why it refused."""
    try:
        asyncio.run(receiver.take(entry))
    except TowpathError as error:
        return error
    return None


@given(
    files=st.dictionaries(PATHS, st.sampled_from(["d1", "d2"]), max_size=4),
    sizes=st.dictionaries(PATHS, SIZES, max_size=4),
    chunks=st.lists(CHUNKS, max_size=4),
)
def test_transfer_when_it_is_hostile_then_nothing_is_written_outside_or_beyond_what_was_announced(
    files: dict[str, str], sizes: dict[str, Any], chunks: list[tuple[str, Any, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        staging = root / "deep" / "in"
        receiver = Receiver(cast("Any", SimpleNamespace()), "key", staging, root / "none", "cloud")
        taken(receiver, begin(announcement(files, sizes)))
        for path, offset, data in chunks:
            taken(receiver, chunk(path, offset, data))

        written = {path for path in root.rglob("*") if path.is_file()}
        assert {path for path in written if staging not in path.parents} <= {receiver.attempt}
        for path in written - {receiver.attempt}:
            assert path.stat().st_size <= sizes[str(path.relative_to(staging))]


@pytest.mark.parametrize("path", HOSTILE)
def test_manifest_when_a_path_leads_out_or_has_another_form_then_is_refused(path: str) -> None:
    with pytest.raises(TowpathError) as raised:
        manifest_of(announcement({path: "d1"}, {}))
    assert (raised.value.detail.code, raised.value.detail.field) == (ErrorCode.NOT_ALLOWED, "files")


@pytest.mark.parametrize("announced", ["", "[]", "{}", "null", '{"files": 1, "sizes": {}}', "[" * 10_000])
def test_manifest_when_it_is_unreadable_then_is_refused(announced: str) -> None:
    with pytest.raises(TowpathError, match="unreadable manifest"):
        manifest_of(announced)


def test_transfer_when_the_target_died_after_its_beginning_then_chunks_are_held_to_the_same_manifest(
    tmp_path: Path,
) -> None:
    (source := tmp_path / "source").mkdir()
    (source / "metadata").write_bytes(b"state")
    files, entry = inventory(source), chunk("metadata", 0, b"state")
    end = {b"kind": b"end", b"generation": b"g1", b"digest": digest_of_inventory(files).encode()}

    def target() -> Receiver:
        return Receiver(cast("Any", SimpleNamespace()), "key", tmp_path / "in", tmp_path / "none", "cloud")

    assert taken(target(), begin(announcement(files, {"metadata": 5}))) is None
    refused = taken(target(), chunk("commits/3", 0, b"x"))
    assert refused is not None
    assert refused.detail.field == "path"
    assert taken(target(), entry) is None
    assert taken(target(), end) is None
    assert inventory(tmp_path / "in") == files
