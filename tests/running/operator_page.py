"""The operator that `docs/extending/operator.md` adds: its code runs as it stands there. Loads no Spark."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from towpath.contracts import operators
from towpath.operators import kind

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "operator.md"
NAME = "grade"
EXAMPLE = {
    "kind": NAME,
    "fields": {"carrier": "string", "delay": "double"},
    "of": "delay",
    "limits": [-6.0, 0.0, 5.0],
}


def add_operator(patch: pytest.MonkeyPatch) -> kind.OperatorKind[Any]:
    """Describe and register the page's operator."""
    model, module = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {**vars(operators)}
    exec(compile(f"from __future__ import annotations\n{model}", str(PAGE), "exec"), names)
    patch.setattr(operators, "Grade", names["Grade"], raising=False)
    patch.setattr(kind.KINDS, "registered", {**kind.kinds()})
    added = ModuleType(f"{kind.PACKAGE}.{NAME}")
    patch.setitem(sys.modules, added.__name__, added)
    exec(compile(module, str(PAGE), "exec"), added.__dict__)
    return kind.kinds()[NAME]
