"""Ready descriptions that come with Towpath, found by their names; others are files."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError

_SUFFIX = ".yaml"


@dataclass(frozen=True)
class Library:
    """The ready descriptions of one kind."""

    package: str
    """Whose data they are."""
    kind: str
    """What they describe, in errors: `scenario`, `topology`."""
    listing: str
    """The command that lists them."""

    def names(self) -> list[str]:
        """In alphabetical order."""
        files = resources.files(self.package).iterdir()
        return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))

    def text(self, name: str) -> str:
        """One of them as it stands in its file. Raises `TowpathError` for a name that there is not."""
        if name not in self.names():
            raise TowpathError(
                ErrorCode.INVALID, f"no such {self.kind}", field=self.kind, value=name, allowed=self.names()
            )
        return resources.files(self.package).joinpath(name + _SUFFIX).read_text(encoding="utf-8")

    def text_of(self, given: str) -> str:
        """The text of a file, or of one of them by its name. Raises `TowpathError`."""
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
