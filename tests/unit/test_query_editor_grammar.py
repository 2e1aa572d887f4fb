"""The editors' grammar of the query language knows what the language knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest

from running.places import ROOT
from towpath.queries.functions import NAMES
from towpath.queries.options import OPTIONS
from towpath.queries.providers import PROVIDERS
from towpath.queries.tree_builder import UNIT_OF

PARTS = json.loads((ROOT / "infra/editors/streamsight.tmLanguage.json").read_text())["repository"]


@pytest.mark.parametrize(
    ("part", "words"),
    [("functions", NAMES), ("options", OPTIONS), ("units", UNIT_OF), ("providers", PROVIDERS)],
)
def test_editors_grammar_when_the_language_has_a_word_then_it_is_coloured(
    part: str, words: Iterable[str]
) -> None:
    known = set(re.findall(r"\w+", PARTS[part]["match"]))

    assert {word for word in words if word not in known} == set()


def test_editors_grammar_when_a_line_has_each_kind_of_word_then_each_is_found() -> None:
    line = 'slow = COMPUTE PERCENTILE[95](delay WHEN > 15, 10 MINUTES) BY carrier WITH SAMPLE 0.2 # "note"'
    found = {
        name: re.findall(part["match"], line)
        for name, part in PARTS.items()
        if "match" in part and name != "units"
    }

    assert found["keywords"] == ["COMPUTE", "WHEN", "BY", "WITH"]
    assert found["functions"] == ["PERCENTILE"]
    assert found["options"] == ["SAMPLE"]
    assert found["operators"] == [">"]
