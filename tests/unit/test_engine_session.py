"""Settings of a session: how much it compiles."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.site import Compilation, EngineSpec
from towpath.engine.session import CODE_GENERATION, java_options_of

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
