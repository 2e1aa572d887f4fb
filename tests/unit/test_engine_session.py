"""Settings of a session, such as how much it compiles, and its temporary files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from towpath.contracts.site import Compilation, EngineSpec
from towpath.engine.session import CODE_GENERATION, java_options_of, take_over

LOGGING = Path("log4j2.properties")


def test_engine_when_nothing_is_said_then_compiles_quickly() -> None:
    spec = EngineSpec()

    assert "-XX:TieredStopAtLevel=1" in java_options_of(spec, LOGGING).split()
    assert CODE_GENERATION[spec.compilation]["spark.sql.codegen.factoryMode"] == "NO_CODEGEN"


def test_engine_when_thorough_then_has_both_tiers_and_sparks_own_code_generation() -> None:
    spec = EngineSpec(compilation=Compilation.THOROUGH)

    assert "-XX:TieredStopAtLevel=4" in java_options_of(spec, LOGGING).split()
    assert CODE_GENERATION[spec.compilation] == {}


def test_engine_when_the_site_has_java_options_then_they_come_last() -> None:
    spec = EngineSpec(compilation=Compilation.THOROUGH, java_options="-XX:TieredStopAtLevel=1")

    assert java_options_of(spec, LOGGING).endswith(" -XX:TieredStopAtLevel=1")


def test_temporary_files_when_an_engine_starts_then_leftovers_go_and_cleaners_find_them_locked(
    tmp_path: Path,
) -> None:
    (tmp_path / "left" / "by").mkdir(parents=True)
    (tmp_path / ".dead.sock").touch()

    take_over(tmp_path)

    assert list(tmp_path.iterdir()) == []
    cleaner = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)
