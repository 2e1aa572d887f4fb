"""Check that the links of all Markdown files lead somewhere: relative paths and anchors. Asks no network.

python tests/document_links.py [DIRECTORY]    prints each dead link; the exit code is 1 if there is one
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(<?([^()\s<>]+)>?(?: \"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def without_code(text: str) -> str:
    """The text without blocks of code: what looks like a link or a heading there is none."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Targets of a page's links and pictures that do not lead to another host."""
    found = _LINK.findall(_CODE.sub("", without_code(text)))
    return [target for target in found if not _ELSEWHERE.match(target)]


def anchors(text: str) -> set[str]:
    """Return the targets behind `#`: headings as GitHub writes them, and anchors set by hand."""
    found: set[str] = set()
    prose = without_code(text)
    for heading in _HEADING.findall(prose):
        slug = re.sub(r"[^\w\- ]", "", _LINK.sub("]", heading).lower()).replace(" ", "-")
        numbered = (slug if n == 0 else f"{slug}-{n}" for n in range(len(found) + 1))
        found.add(next(name for name in numbered if name not in found))
    return found | set(_ANCHOR.findall(prose))


def dead_links(page: Path) -> Iterator[str]:
    """Each link of a page that leads nowhere, with the reason."""
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{page}: {link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{page}: {link}: there is no such heading"


def pages(root: Path) -> list[Path]:
    """The Markdown files of a checkout: those that git knows, or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(root / name for name in names.split("\0") if name and (root / name).exists())


def main() -> int:
    """Print the dead links below a directory. Returns the exit code."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = [dead for page in pages(root) for dead in dead_links(page)]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
