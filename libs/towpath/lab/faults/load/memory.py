"""Holds memory until it is killed: `memory.py <megabytes>`, of 1,000,000 bytes."""

from __future__ import annotations

import contextlib
import mmap
import signal
import sys
from pathlib import Path

BLOCK_MEGABYTES = 16
"""In blocks, so that the machine stays responsive while it finds the pages."""


def main(megabytes: int) -> None:
    """Take it, touch every page, and wait to be ended."""
    with contextlib.suppress(OSError):
        # When memory runs out, the system is to choose this process.
        Path("/proc/self/oom_score_adj").write_text("1000")
    blocks: list[bytearray] = []
    left = megabytes
    while left > 0:
        block = bytearray(min(left, BLOCK_MEGABYTES) * 10**6)
        block[:: mmap.PAGESIZE] = b"\x01" * len(range(0, len(block), mmap.PAGESIZE))
        blocks.append(block)
        left -= BLOCK_MEGABYTES
    while True:
        signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]))
