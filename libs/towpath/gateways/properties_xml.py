"""Properties as Eclipse Kura's clients write them: an XML text with a `property` element for each. Pure.

Prefixes of element names may be undeclared, as in the thesis's example, so they are not resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from towpath.gateways.refusal import Refusal

TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("Integer", "Long", "Short", "Byte"), int),
    **dict.fromkeys(("Double", "Float"), float),
    **dict.fromkeys(("String", "Char", "Character", "Password"), str),
    "Boolean": lambda text: {"true": True, "false": False}[text.lower()],
}
"""Type of a property → how its value is read."""

_FIELD = "body"


def read_properties(text: str) -> dict[str, Any]:
    """Return the properties of an XML text. Raises `Refusal` (400) for any other text."""
    from xml.parsers import expat  # Here, as most gateways are never asked in XML.

    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise Refusal.bad(f"not readable as XML: {error}", field=_FIELD) from error
    if not reader.seen:
        raise Refusal.bad("no properties in it", field=_FIELD, allowed="an element `properties`")
    return reader.properties


def _refuse_document_type(*_: object) -> None:
    raise Refusal.bad("a document type is not allowed", field=_FIELD)


class _Reader:
    """Collects properties from the parser's events."""

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}
        self.seen = False
        self._property: dict[str, str] | None = None
        self._values: list[Any] = []
        self._text: list[str] | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        kind = name.rpartition(":")[2]
        self.seen = self.seen or kind == "properties"
        if kind == "property":
            self._property, self._values = attributes, []
        elif kind == "value" and self._property is not None:
            self._text = []

    def characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def end(self, name: str) -> None:
        kind = name.rpartition(":")[2]
        if kind == "value" and self._property is not None and self._text is not None:
            self._values.append(_value(self._property, "".join(self._text)))
            self._text = None
        elif kind == "property" and self._property is not None:
            self._keep(self._property)
            self._property = None

    def _keep(self, described: dict[str, str]) -> None:
        name = described.get("name")
        if not name:
            raise Refusal.bad("a property without a name", field=_FIELD)
        is_array = described.get("array", "false") == "true"
        if not is_array and len(self._values) != 1:
            raise Refusal.bad("not one value", field=name, value=len(self._values), allowed="1")
        self.properties[name] = [*self._values] if is_array else self._values[0]


def _value(described: dict[str, str], text: str) -> Any:
    kind, name = described.get("type", "String"), described.get("name", _FIELD)
    if kind not in TYPES:
        raise Refusal.bad("no such type", field=name, value=kind, allowed=sorted(TYPES))
    try:
        return TYPES[kind](text if kind in ("String", "Password") else text.strip())
    except (ValueError, KeyError) as error:
        raise Refusal.bad(f"not a value of type {kind}", field=name, value=text) from error
