"""Migrate without state: stop, and start at the target where the source stopped (SpecK's redeployment).

It has the steps of `general`. `pause-transfer` carries nothing, and `resume` begins after the source's last
serial numbers with an empty checkpoint of the next generation. So no one takes a cached checkpoint for the
new state.
"""

from __future__ import annotations

from towpath.protocols.epochs import restored
from towpath.protocols.strategies.general import GENERAL, figures, pause_transfer
from towpath.protocols.table import Strategy, register

RESTART = register(
    Strategy(
        name="restart",
        summary="stop, and start without state where the source stopped",
        obstacle=lambda spec: None,
        steps=GENERAL.steps,
        rolled_back=restored,
        begins_after=lambda record: pause_transfer.fact_in(record).serials,
        loses_state=True,
        plain_s=2.0,
        figures=figures,
    )
)
