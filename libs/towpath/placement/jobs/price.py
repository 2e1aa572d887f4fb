"""Predict the price of moving jobs: their state has to get to the new site."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.view import MeshView


@dataclass(frozen=True)
class Price:
    """The price of one move, or of several one after the other."""

    seconds: float
    """Until the last byte of state has arrived. Infinite without a link."""
    state_bytes: float
    money: float
    """Bytes times the price of the link."""


def price_of(view: MeshView, moves: Iterable[Move]) -> Price:
    """Return the sum of seconds, bytes and money. Starting and handing over takes longer than that."""
    seconds = state_bytes = money = 0.0
    for move in moves:
        size = view.job[move.job].state_bytes
        link = view.link.get((move.origin, move.target))
        if move.origin == move.target:
            continue
        seconds += math.inf if link is None else link.transfer_s(size)
        state_bytes += size
        money += 0.0 if link is None else size * link.price_per_byte
    return Price(seconds, state_bytes, money)
