"""The envelope of every answer: either a result or one typed error."""

from __future__ import annotations

from typing import Generic

from pydantic import model_validator

from towpath.contracts.errors import ErrorDetail, TowpathError
from towpath.contracts.message import Answer, Model


class Reply(Model, Generic[Answer]):
    """Answer to a command. Exactly one of `result` and `error` is set; `ok` says which."""

    ok: bool
    result: Answer | None = None
    error: ErrorDetail | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Reply[Answer]:
        if self.ok == (self.result is None) or self.ok == (self.error is not None):
            raise ValueError("a reply has a result when ok, and an error when not")
        return self

    def unwrap(self) -> Answer:
        """The result, or raise the error as `TowpathError`."""
        if self.error is not None:
            raise TowpathError.of(self.error)
        assert self.result is not None
        return self.result


class Done(Model):
    """The answer of a command whose success needs no further words."""

    note: str = ""
    """For people: what was done, or that there was nothing to do."""
