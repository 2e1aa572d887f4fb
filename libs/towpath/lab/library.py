"""Ready-made descriptions that come with Towpath, found by name. Other descriptions are files."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError

_SUFFIX = ".yaml"

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Library(Generic[M]):
    """The ready-made descriptions of one kind."""

    package: str
    """Python package whose data files hold them."""
    kind: str
    """Their kind, for error messages: `scenario`, `topology`."""
    listing: str
    """The command that lists them."""
    model: type[M]

    def names(self) -> list[str]:
        """Return all names in alphabetical order."""
        files = resources.files(self.package).iterdir()
        return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))

    def text(self, name: str) -> str:
        """Return one description as its file has it. Raises `TowpathError` for an unknown name."""
        if name not in self.names():
            raise TowpathError.unknown(self.kind, name, self.names())
        return resources.files(self.package).joinpath(name + _SUFFIX).read_text(encoding="utf-8")

    def text_of(self, given: str) -> str:
        """Return the text of a file, or of a description by its name. Raises `TowpathError`."""
        path = Path(given)
        if not path.suffix and "/" not in given:
            return self.text(given)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TowpathError(
                ErrorCode.INVALID,
                f"not readable: {error}",
                field=self.kind,
                value=given,
                allowed=f"a YAML or JSON file, or a name that `{self.listing}` shows",
            ) from error

    def validated(self, content: Any, source: str) -> M:
        """Return plain content as a model. Raises `TowpathError` with source, field, value and allowed."""
        try:
            return self.model.model_validate(content)
        except ValidationError as error:
            detail = TowpathError.of_validation(error).detail
            message = f"{source}: {detail.message}"
            raise TowpathError.of(detail.model_copy(update={"message": message})) from error
