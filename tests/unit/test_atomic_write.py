"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from towpath.atomic_write import write_atomically


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("content", ["new", b"new"])
def test_write_when_a_file_is_there_then_it_is_replaced_and_nothing_is_left_beside_it(
    tmp_path: Path, content: str | bytes, durable: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("old, and longer")

    write_atomically(path, content, durable=durable)

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_write_when_the_old_file_has_another_name_then_that_keeps_the_old_content(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("old")
    other.hardlink_to(path)

    write_atomically(path, "new")

    assert other.read_text() == "old"


def test_write_when_it_fails_at_the_end_then_the_old_content_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644])
def test_write_when_a_mode_is_given_then_the_file_has_it(tmp_path: Path, mode: int) -> None:
    write_atomically(tmp_path / "file", "secret", mode=mode)
    write_atomically(tmp_path / "file", "secret", mode=mode)

    assert (tmp_path / "file").stat().st_mode & 0o777 == mode
