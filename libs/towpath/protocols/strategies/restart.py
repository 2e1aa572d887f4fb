"""Migration without state: stop, start elsewhere where the source stopped (SpecK's redeployment).

The same table as `general`; the record's strategy makes `pause-transfer` carry nothing and `resume`
begin after the source's last serial numbers with an empty checkpoint of the next generation.
"""

from __future__ import annotations

from towpath.protocols.step import Strategy, restored
from towpath.protocols.strategies.general import STEPS

RESTART = Strategy("restart", STEPS, restored)
