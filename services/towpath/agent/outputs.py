"""Commands to the agent as keeper of outputs: the epoch that may publish, and results kept aside."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from towpath.contracts.migration import DropShadow, OpenShadow, SetEpoch, ShadowOpened
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import CloseOutput, DropOutput, PrepareOutput
from towpath.streams.shadows import Shadows
from towpath.streams.streams import SiteStreams


class Outputs:
    """Commands about the output streams of the site. One at a time for each job."""

    def __init__(self, streams: SiteStreams) -> None:
        self.streams = streams
        self.shadows = Shadows(streams)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def set_epoch(self, command: SetEpoch) -> Done:
        """Make the output accept one epoch only. First take in the results that wait for this epoch."""
        async with self._locks[command.job]:
            settlement = command.settlement or await self.shadows.owed(command)
            if settlement is not None:
                await self.shadows.settle(command, settlement)
            else:
                await self.streams.outputs.set_epoch(
                    command.job,
                    command.epoch,
                    command.output,
                    owner=command.owners[command.epoch],
                    resumes=command.resumes,
                )
        return Done()

    async def open_shadow(self, command: OpenShadow) -> ShadowOpened:
        """Keep the results of some epochs apart from the output."""
        async with self._locks[command.job]:
            return ShadowOpened(output_serial=await self.shadows.open(command))

    async def drop_shadow(self, command: DropShadow) -> Done:
        """Delete results that were kept apart."""
        async with self._locks[command.job]:
            await self.shadows.drop(command.job, operation=command.operation)
        return Done()

    async def prepare_output(self, command: PrepareOutput) -> Done:
        """Create an output that already has readers."""
        async with self._locks[command.job]:
            await self.streams.outputs.prepare(command.job, command.output)
        return Done()

    async def close_output(self, command: CloseOutput) -> Done:
        """Close an output for good. First take in waiting results, because the next output is another."""
        last = SetEpoch(
            **command.model_dump(include={"site", "operation", "job", "epoch", "output"}),
            owners={command.epoch: command.site},
        )
        async with self._locks[command.job]:
            owed = await self.shadows.owed(last)
            if owed is not None:
                await self.shadows.settle(last, owed)
            await self.streams.outputs.close(command.job, command.epoch, command.output)
        return Done()

    async def drop_output(self, command: DropOutput) -> Done:
        """Delete outputs."""
        async with self._locks[command.job]:
            await self.shadows.drop(command.job)
            for stream in command.streams:
                await self.streams.outputs.drop(stream)
        return Done()
