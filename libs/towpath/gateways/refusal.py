"""The error of a request that a gateway refuses: a response code and all that is wrong."""

from __future__ import annotations

from typing import Any

from towpath.contracts.gateway import Code, Problem


class Refusal(Exception):
    """A request is refused. The answer has `code` and lists `problems`.

    It is not a `TowpathError`, whose models would take a fifth of a gateway's memory.
    """

    def __init__(self, code: Code, *problems: Problem) -> None:
        self.code = code
        self.problems = problems
        super().__init__("; ".join(one_line(problem) for problem in problems))

    @classmethod
    def bad(
        cls, message: str, *, field: str | None = None, value: Any = None, allowed: Any = None
    ) -> Refusal:
        """Return the refusal of a wrong request (code 400)."""
        return cls(Code.BAD_REQUEST, Problem(message, field, value, allowed))

    @classmethod
    def unknown(cls, kind: str, name: str, known: list[str]) -> Refusal:
        """Return the refusal of a name that is none of those known (code 404)."""
        return cls(Code.NOT_FOUND, Problem(f"no such {kind}", kind, name, sorted(known)))


def one_line(problem: Problem) -> str:
    """Return a problem on one line, for logs and the command line."""
    parts = [problem.message]
    if problem.field is not None:
        parts.append(
            f"field {problem.field}" + (f" = {problem.value!r}" if problem.value is not None else "")
        )
    if problem.allowed is not None:
        allowed = problem.allowed if isinstance(problem.allowed, str) else ", ".join(problem.allowed)
        parts.append(f"allowed: {allowed or '(none)'}")
    return "; ".join(parts)
