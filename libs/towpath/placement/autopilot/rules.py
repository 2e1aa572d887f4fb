"""The rules of decision: when a move pays, and how many moves there may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Limits of a decision. Times are seconds."""

    horizon_s: float = 600.0
    """A move must pay for itself within this time."""
    gain_factor: float = 2.0
    """It pays if its gain is at least so many times its cost, because forecasts err."""
    least_gain_s: float = 5.0
    """Job-seconds. A smaller gain is noise."""
    interval_s: float = 5.0
    """Between two looks."""
    settled_s: float = 10.0
    """After a change, jobs are measured for so long before the next look."""
    agreeing: int = 2
    """Looks in a row that must want the same moves."""
    rest_s: float = 120.0
    """A job that moved stays as long, unless it would break its goal."""
    moves_per_hour: int = 20
    lead_factor: float = 3.0
    """Moves begin before their cause, by so many times as long as they are expected to take: sooner, the
    forecast may still change, and later they would be late."""
    kilojoule_s: float = 0.0
    """Job-seconds of broken goals that a kilojoule is worth."""
    gigabyte_s: float = 0.0
    """Job-seconds of broken goals that 10⁹ bytes over links are worth."""
    headroom: float = 0.8
    """Share of a site's cores that jobs may use: bursts within a second need the rest."""
