"""Places of files in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden"
"""Files that the last version wrote, see `tests/golden_files.py`."""
