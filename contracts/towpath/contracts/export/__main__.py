"""`python -m towpath.contracts.export [--check]`: write the exported contracts, or fail when they drift."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from towpath.contracts.export.documents import OWNED_FOLDERS, documents

CONTRACTS = Path(__file__).resolve().parents[3]
"""The folder `contracts/` of the repository."""


def drift(folder: Path) -> list[str]:
    """Names of files under `folder` that differ from what the models say, are missing, or are left over."""
    return _differing(folder, documents())


def write(folder: Path) -> list[str]:
    """Bring `folder` in line with the models. Returns the names of the files that changed."""
    wanted = documents()
    changed = _differing(folder, wanted)
    for name in changed:
        path = folder / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()
    return changed


def _differing(folder: Path, wanted: dict[str, str]) -> list[str]:
    differing = [
        name
        for name, text in wanted.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]
    return sorted(differing + _left_over(folder, wanted))


def _left_over(folder: Path, wanted: dict[str, str]) -> list[str]:
    found = (path for owned in OWNED_FOLDERS for path in (folder / owned).glob("*.json"))
    return [name for path in found if (name := path.relative_to(folder).as_posix()) not in wanted]


def main(arguments: list[str] | None = None) -> int:
    """Run the export. Returns the exit code: 1 when `--check` finds drift."""
    parser = argparse.ArgumentParser(prog="python -m towpath.contracts.export", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when files drift")
    parser.add_argument("--into", type=Path, default=CONTRACTS, help="folder to write to")
    options = parser.parse_args(arguments)
    if not options.check:
        changed = write(options.into)
        print(f"{len(changed)} of {len(documents())} files changed" if changed else "nothing to change")
        return 0
    differing = drift(options.into)
    for name in differing:
        print(f"{name} does not say what the models say", file=sys.stderr)
    if differing:
        print("run: python -m towpath.contracts.export", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
