"""Write the sections of an HTML report as Markdown, so that no report is composed twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element


def markdown(title: str, lead: str, sections: Iterable[Element]) -> str:
    """Return a report as the text of a Markdown file. It knows the elements that `reports.markup` makes."""
    blocks = [f"# {title}", lead.strip(), *(block for part in sections for block in _blocks(part))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(node: Element) -> Iterator[str]:
    match node.tag:
        case "h2" | "h3" | "h4":
            yield f"{'#' * int(node.tag[1])} {_text(node)}"
        case "p":
            yield _text(node)
        case "img":
            yield f"![{node.get('alt', '')}]({node.get('src', '')})"
        case "ul":
            yield "\n".join(f"- {_text(entry)}" for entry in node)
        case "table":
            yield from _table(node)
        case _:
            for child in node:
                yield from _blocks(child)


def _table(node: Element) -> Iterator[str]:
    heads, *rows = [[_text(cell) for cell in row] for row in node.iter("tr")]
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    yield _text(node[0])


def _text(node: Element) -> str:
    mark = "`" if node.tag == "code" else ""
    inside = (node.text or "") + "".join(_text(child) + (child.tail or "") for child in node)
    return f"{mark}{inside}{mark}"
