"""Steps of an output's keeper before it closes the output."""

from __future__ import annotations

from typing import Any, cast

from towpath.agent.outputs import Outputs
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import SetEpoch, Settlement
from towpath.contracts.site_commands import CloseOutput

OUTPUT = ResolvedOutput(site="jfk", stream="OUT_a", topic="a", rejected_topic="a/rejected")
CLOSE = CloseOutput(site="jfk", operation="u1", job="a", epoch=5, output=OUTPUT)


class Played:
    """The site's streams and shadows. With `waiting`, diverted results of epoch 1 wait in a shadow."""

    site, jetstream = "jfk", None

    def __init__(self, *, waiting: bool) -> None:
        self.outputs, self.waiting = self, waiting
        self.done: list[tuple[str, str, int]] = []

    async def owed(self, command: SetEpoch) -> Settlement | None:
        return Settlement(epoch=1, interim=command.epoch - 1) if self.waiting else None

    async def settle(self, command: SetEpoch, settlement: Settlement) -> None:
        self.done.append(("settle", command.output.stream, command.epoch))

    async def close(self, job: str, epoch: int, output: ResolvedOutput) -> None:
        self.done.append(("close", output.stream, epoch))


async def closed(*, waiting: bool) -> list[tuple[str, str, int]]:
    played = Played(waiting=waiting)
    outputs = Outputs(cast("Any", played))
    outputs.shadows = cast("Any", played)
    await outputs.close_output(CLOSE)
    return played.done


async def test_output_when_diverted_results_wait_beside_it_then_has_them_before_it_is_closed() -> None:
    assert await closed(waiting=True) == [("settle", "OUT_a", 5), ("close", "OUT_a", 5)]


async def test_output_when_nothing_waits_beside_it_then_is_closed_at_once() -> None:
    assert await closed(waiting=False) == [("close", "OUT_a", 5)]
