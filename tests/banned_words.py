"""Check that texts of the tree use plain words: docstrings, comments, string literals, Markdown and the page.

python tests/banned_words.py [DIRECTORY]    prints each stumbling word; the exit code is 1 if there is one
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

PLAIN_WORDS = {
    "anew": "again",
    "whoever": "anyone who",
    "nobody": "no one",
    "somebody": "someone",
    "shall": "must or will",
    "for ever": "until stopped",
    "so-manieth": "Nth",
}
"""Each banned word, with the plain one."""

EXCEPT = ("tests/banned_words.py", "tests/unit/test_banned_words.py")
"""Files that must name the words."""

_WORDS = re.compile(r"\b(" + "|".join(PLAIN_WORDS).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
_SUMMARY = re.compile(r"(What|Whether|How)\b")
_WHOLE = (".md", ".js", ".html")
_TEXT_TOKENS = (tokenize.COMMENT, tokenize.STRING)


def stumbles(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and complaint for each banned word of a file, and each summary that asks a question."""
    if path.endswith(_WHOLE):
        yield from _words(1, text)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _TEXT_TOKENS:
            yield from _words(token.start[0], token.string)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(summary))) if asks := _SUMMARY.match(summary.lstrip()):
                yield node.lineno, f"a docstring begins with {asks[1]!r}: say what it is, or what it does"


def _words(first_line: int, text: str) -> Iterator[tuple[int, str]]:
    for found in _WORDS.finditer(text):
        word = " ".join(found[0].lower().split())
        yield first_line + text.count("\n", 0, found.start()), f"{found[0]!r}: write {PLAIN_WORDS[word]!r}"


def guarded(root: Path) -> list[str]:
    """Return the files that are checked: those that git knows or would add, without `EXCEPT`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    patterns = [f"*{suffix}" for suffix in (".py", *_WHOLE)]
    names = subprocess.run([*command, *patterns], cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(
        name
        for name in names.split("\0")
        if name and (root / name).exists() and not name.startswith(EXCEPT) and "uPlot" not in name
    )


def main() -> int:
    """Print the stumbling words below a directory. Return the exit code."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = [
        f"{name}:{line}: {complaint}"
        for name in guarded(root)
        for line, complaint in sorted(stumbles(name, (root / name).read_text(encoding="utf-8")))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
