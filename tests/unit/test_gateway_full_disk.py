"""The log of a gateway's results, and of a Spark job's input, on a disk that is full for some time."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from towpath.gateways import result_log
from towpath.gateways.result_log import ResultLog


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let the kernel write no file beyond a size: it writes what fits, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def payload(number: int) -> bytes:
    return b"%d " % number * 100


def test_results_when_some_do_not_fit_then_those_before_and_after_are_kept_once(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, budget_bytes=10**6)
    log.append([payload(number) for number in (1, 2, 3)])

    with files_end_at(log.bytes + 150):
        for _ in range(3):
            with pytest.raises(OSError, match=r"No space|too large"):
                log.append([b"failed" * 50, b"failed" * 50])
    log.append([payload(number) for number in (4, 5)])

    expected = [(number, payload(number)) for number in range(1, 6)]
    assert (log.read(0, 10), log.dropped) == (expected, 0)
    log.close()
    assert ResultLog(tmp_path, budget_bytes=10**6).read(0, 10) == expected


def test_results_when_the_state_cannot_be_written_then_are_kept_once_and_the_log_shrinks_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ResultLog(tmp_path, budget_bytes=2000)
    for number in range(1, 8):
        log.append([payload(number)])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(result_log, "write_atomically", full)
        for number in range(8, 12):
            log.append([payload(number)])  # The caller appends again after an error.
    assert log.last == 11

    log.append([payload(12)])
    kept = log.read(0, 20)
    assert log.bytes <= 2000
    assert kept == [(number, payload(number)) for number in range(13 - len(kept), 13)]
    assert log.dropped + len(kept) == 12


def test_log_when_the_disk_is_full_then_what_was_delivered_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would make room."""
    log = ResultLog(tmp_path, budget_bytes=4000)
    for number in range(1, 8):
        log.append([payload(number)])
    log.save()
    for number in range(1, 7):
        log.delivered(number)
    before, write = log.bytes, result_log.write_atomically

    def full_without_reserve(path: Path, content: bytes, *, durable: bool = True) -> None:
        if (tmp_path / "reserve").exists():
            raise OSError(28, "No space left on device")
        write(path, content, durable=durable)

    monkeypatch.setattr(result_log, "write_atomically", full_without_reserve)
    log.save()

    assert log.bytes < before / 2
    assert (tmp_path / "reserve").stat().st_size == result_log.RESERVE_BYTES, "for the next time"
