"""Writes and syncs until it is killed: `disk.py <directory> <kilobytes of 1,000 bytes> <pause in ms>`."""

from __future__ import annotations

import os
import sys
import tempfile
import time

LARGEST_BYTES = 64 * 10**6
"""Then the file is written over from its beginning."""

REFUSED_PAUSE_S = 0.2
"""After a write that failed: a disk that is full is loaded enough."""


def main(directory: str, kilobytes: int, pause_ms: float) -> None:
    """Write to a file without a name, which goes with this process."""
    data = os.urandom(kilobytes * 1000)
    with tempfile.TemporaryFile(dir=directory) as file:
        place = 0
        while True:
            try:
                os.pwrite(file.fileno(), data, place)
                os.fdatasync(file.fileno())
            except OSError:
                time.sleep(REFUSED_PAUSE_S)
            place = (place + len(data)) % LARGEST_BYTES
            time.sleep(pause_ms / 1000)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
