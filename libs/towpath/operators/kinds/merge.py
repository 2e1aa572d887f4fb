"""The `merge` operator: make one output of several inputs. A plan like that of `forward`."""

from __future__ import annotations

from towpath.contracts.operators import Merge
from towpath.operators.kind import OperatorKind, register
from towpath.operators.kinds.forward import compile_passage

MERGE = register(
    OperatorKind(model=Merge, compile=compile_passage, reads=lambda operator: {}, passes_on=True)
)
