"""Repair the text of the thesis's template: one listing has a slip, and the other one no quotes."""

from __future__ import annotations

import json
import re
from typing import Any

from towpath.composition.texts import load
from towpath.plans.findings import Findings

_LOST_COLON = re.compile(r'\{\s*("[^"\\]+")\s*([^\s"{}\[\],:][^"{}\[\],:]*")\s*\}')
"""`{"spark.workers"5"}`, as Listing A.1 is printed."""

_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)([A-Za-z_][\w .-]*?)(\s*:)')
"""A text in quotes, which stays, or a key without quotes, as in Listing 3.1."""

_TEMPLATE = re.compile(r'\s*[{\[]\s*(?:\{\s*)?"?(?:computation|operation)"?\s*:', re.IGNORECASE)


def is_template(text: str) -> bool:
    """Return True if a text begins as the thesis's template does."""
    return _TEMPLATE.match(text) is not None


def load_template(text: str, findings: Findings) -> Any:
    """Return the content of a template. Each repair is a warning.

    Raises `TowpathError` (invalid) naming line and column where even repairs do not make it JSON.
    """
    if not _is_json(text):
        text = _LOST_COLON.sub(lambda found: _with_colon(found, findings), text)
    if not _is_json(text):
        text = _quoted(text, findings)
    return load(text, "application/json")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _with_colon(found: re.Match[str], findings: Findings) -> str:
    repaired = f'{{{found[1]}:"{found[2]}}}'
    findings.warn(_line(found), "this is not JSON: colon and quote are missing", found[0], repaired)
    return repaired


def _quoted(text: str, findings: Findings) -> str:
    keys: list[str] = []

    def quote(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        keys.append(found[2])
        return f'{found[1]}"{found[2]}"{found[3]}'

    repaired = _BARE_KEY.sub(quote, text)
    if keys:
        findings.warn("line 1", f"this is not JSON: {len(keys)} keys have no quotes", ", ".join(keys))
    return repaired


def _line(found: re.Match[str]) -> str:
    before = found.string[: found.start()]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
