"""Empirical distribution functions of CPU and memory, with and without rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from migration_pictures import COLOURS, STYLE


def draw_distributions(path: Path, title: str, unit: str, values: Mapping[str, Sequence[float]]) -> None:
    """Draw one line for each setting: the share of its samples up to each value."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7.5, 4.2))
        for colour, (setting, found) in zip(COLOURS * 2, values.items(), strict=False):
            ordered = np.sort(np.asarray(found, float))
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            label = f"{setting} (n = {len(ordered)})"
            axis.step(ordered, share, where="post", color=colour, label=label, lw=1.2)
        axis.set_xlabel(unit)
        axis.set_ylabel("share of samples, 0.25 s each")
        axis.set_ylim(0, 1.02)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
