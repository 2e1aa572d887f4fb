"""A mesh for all tests of the folder: starting it takes a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from running.power import PowerSafeMesh, power_safe_mesh


@pytest.fixture(scope="session")
def power_safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PowerSafeMesh]:
    with power_safe_mesh(tmp_path_factory.mktemp("power-safe")) as running:
        yield running
