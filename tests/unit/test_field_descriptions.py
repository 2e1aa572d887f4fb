"""The string below a field of a model describes it, in schemas."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.field_descriptions import field_descriptions
from towpath.contracts.message import Model


class Boat(Model):
    length_m: float
    """From stem
    to stern."""
    name: str
    """As painted on it."""
    crew: int = Field(default=1, description="Given in code.")
    """Not this."""
    cargo: str = ""


class Barge(Boat):
    name: str = "no name"
    draught_m: float = 0
    """Below the water."""


def test_field_descriptions_when_strings_stand_below_fields_then_are_those() -> None:
    assert field_descriptions(Boat) == {
        "length_m": "From stem\nto stern.",
        "name": "As painted on it.",
        "crew": "Not this.",
    }


def test_field_descriptions_when_fields_are_inherited_then_overridden_ones_lose_theirs() -> None:
    assert set(field_descriptions(Barge)) == {"length_m", "crew", "draught_m"}


def test_schema_when_made_then_describes_fields_as_the_source_does() -> None:
    properties = Boat.model_json_schema()["properties"]
    assert properties["length_m"]["description"] == "From stem\nto stern."
    assert properties["crew"]["description"] == "Given in code."
    assert "description" not in properties["cargo"]


def test_field_descriptions_when_a_model_takes_fields_of_another_then_takes_their_descriptions() -> None:
    class Taken(Model):
        name: str

    Taken.fields_from = Boat

    assert field_descriptions(Taken) == {"name": "As painted on it."}
