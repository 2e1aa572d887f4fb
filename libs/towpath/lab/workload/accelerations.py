"""Real accelerations, as a signal for devices that vibrate.

The data set is `BasicMotions`, two files of 0.2 MB in the package `sktime`. That is never imported, so its
files alone are enough (`pip install --no-deps sktime`). Four students wore a smart watch while they stood,
walked, ran and played badminton: 80 recordings of three accelerometers, 10 s long at 10 Hz. The gyroscopes
of the watch are left out here.

No data set of accelerations on rails is on a package index. So the recordings are scaled: each has the mean 0
and the root mean square 1. What stays is real: the shape of the signal, with its bursts, steps and repeated
values, which noise from a random number generator does not have.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from towpath.contracts.errors import ErrorCode, TowpathError

Signal = NDArray[np.float64]

RECORDINGS = 80
SAMPLES = 100
"""Measurements of one accelerometer in one recording."""

AXES = 3
"""The first dimensions of a recording. The others are of gyroscopes."""

_FILES = ("BasicMotions_TRAIN.ts", "BasicMotions_TEST.ts")


@cache
def recordings() -> tuple[Signal, ...]:
    """Return the recordings of single accelerometers, scaled, in file order.

    Raises `TowpathError` when the data set is not installed.
    """
    folder = _folder()
    found = tuple(
        _scaled(np.array(values.split(","), np.float64))
        for name in _FILES
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
        if line and line[0] not in "#@"
        # The last part is the class.
        for values in line.split(":")[:AXES]
    )
    if len(found) != RECORDINGS * AXES or any(len(each) != SAMPLES for each in found):
        raise TowpathError(
            ErrorCode.FAILED,
            f"{folder} holds {len(found)} recordings",
            allowed=f"{RECORDINGS * AXES} recordings of {SAMPLES} measurements, as in sktime 1.2",
        )
    return found


def signal(length: int, seed: int) -> Signal:
    """Return a signal of so many measurements: all recordings in an order drawn from `seed`, over and over.

    Its root mean square is 1.
    """
    found = recordings()
    order = np.random.default_rng(seed).permutation(len(found))
    return np.resize(np.concatenate([found[place] for place in order]), length)


def _scaled(measured: Signal) -> Signal:
    centred = measured - measured.mean()
    return centred / np.sqrt(np.mean(centred**2))


def _folder() -> Path:
    """Where the data set is installed. Importing the package would load scikit-learn."""
    spec = importlib.util.find_spec("sktime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "datasets" / "data" / "BasicMotions"
        if path.is_dir():
            return path
    raise TowpathError(ErrorCode.FAILED, "the accelerations are not installed", allowed="pip install sktime")
