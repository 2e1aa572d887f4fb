"""Tell how figures grow with the number of sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

CONSTANT_RATIO = 1.3
"""A figure that grows less than this from the smallest size to the largest does not depend on the size. Runs
of one size differ by as much on a machine that other work shares."""
LINEAR_EXPONENT = 1.15
"""Above it, a figure that begins at zero grows faster than the sites do."""
STEEPER = 1.5
"""A figure with a constant part grows faster if the last site costs so much more than the first ones."""

Points = Sequence[tuple[int, float]]
"""Number of sites, and the figure."""


class Growth(StrEnum):
    """Dependence of a figure on the number of sites."""

    CONSTANT = "does not grow"
    LINEAR = "grows with the sites, and no faster"
    FASTER = "grows faster than the sites"


def growth(points: Points) -> Growth | None:
    """Return how a figure grows; None for fewer than two sizes, or where it is zero."""
    ordered = sorted(points)
    if len({size for size, _ in ordered}) < 2 or min(value for _, value in ordered) <= 0:
        return None
    (least, first), (most, last) = ordered[0], ordered[-1]
    if last <= CONSTANT_RATIO * first:
        return Growth.CONSTANT
    if math.log(last / first) / math.log(most / least) > LINEAR_EXPONENT:
        return Growth.FASTER
    begins, ends = _slope(ordered[0], ordered[1]), _slope(ordered[-2], ordered[-1])
    return Growth.FASTER if len(ordered) > 2 and ends > STEEPER * max(begins, 0.0) else Growth.LINEAR


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def growth_lines(cases: Mapping[int, Mapping[str, float | None]]) -> list[str]:
    """Return a line for each way to grow that names the figures with it, and the ratio between sizes.

    `cases`: number of sites → the figures of that size.
    """
    titles = dict.fromkeys(title for figures in cases.values() for title in figures)
    found: dict[Growth, list[str]] = {kind: [] for kind in Growth}
    for title in titles:
        points = [(size, v) for size, figures in cases.items() if (v := figures.get(title)) is not None]
        kind = growth(points)
        if kind is not None:
            found[kind].append(f"{title} (×{max(points)[1] / min(points)[1]:.2g})")
    sizes = f"from {min(cases)} to {max(cases)} sites (×{max(cases) / min(cases):.2g})" if cases else ""
    return [f"{sizes} {kind}: {', '.join(names)}" for kind, names in found.items() if names]


def per_site(points: Points) -> float | None:
    """Return what each further site adds, from the smallest size to the largest; None for one size."""
    ordered = sorted(points)
    return _slope(ordered[0], ordered[-1]) if len({size for size, _ in ordered}) > 1 else None


def holds(size: int, used_mb: Mapping[int, float], available_mb: float, first_mb: float) -> bool:
    """True if memory holds so many sites: each takes what each of the largest measured size took, and a third
    more. Before anything is measured, `first_mb`. `used_mb`: size → what it took together.
    """
    each = used_mb[max(used_mb)] / max(used_mb) if used_mb else first_mb
    return 4 / 3 * each * size <= available_mb
