"""Box plots of roll-outs by number of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from migration_pictures import COLOURS, STYLE

WIDTH = 0.3


def draw_boxes(
    path: Path, title: str, by_count: Mapping[int, Mapping[str, Sequence[float]]], unit: str = "gateways"
) -> None:
    """Draw one group of boxes for each number of devices, with a box for each way of asking or measuring."""
    modes = [*next(iter(by_count.values()))]
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 4))
        for position, (mode, colour) in enumerate(zip(modes, COLOURS, strict=False)):
            places = [group + (position - (len(modes) - 1) / 2) * WIDTH for group in range(len(by_count))]
            boxes = axis.boxplot(
                [by_count[count][mode] for count in by_count],
                positions=places,
                widths=WIDTH * 0.8,
                patch_artist=True,
                medianprops={"color": "black"},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=colour, alpha=0.6)
            axis.plot([], [], color=colour, linewidth=6, alpha=0.6, label=mode)
        axis.set_xticks(range(len(by_count)), [f"{count} {unit}" for count in by_count])
        axis.set_ylim(bottom=0)
        axis.set_title(title, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        plt.close(figure)
