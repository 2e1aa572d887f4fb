"""Every benchmark can begin: people run benchmarks by hand, and they take minutes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_"))


@pytest.mark.parametrize("module", MODULES)
def test_benchmark_when_imported_then_finds_all_it_needs(module: str) -> None:
    importlib.import_module(module)
