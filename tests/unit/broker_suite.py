"""The behaviour of every broker's binder, as far as it needs no broker and no server.

A module makes a subclass of `BrokerSuite` whose name begins with `Test`, with a fixture `broker` that returns
an `UnboundBroker`. `test_broker_binders.py` does so for all brokers of the registry.
`tests/end_to_end/servers/test_brokers.py` goes on with real ones.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from dataclasses import dataclass

import nats
import pytest

from running.waiting import WITHIN_S, eventually
from towpath.brokers.binder import BrokerBinder
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.mesh import binaries
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import SiteAccess
from towpath.tasks import end

SITE = "jfk"


@dataclass(frozen=True)
class UnboundBroker:
    """A kind of broker, for a site where nothing runs."""

    kind: BrokerKind
    make: Callable[[SiteAccess, Home], BrokerBinder]
    program: str | None
    """The program that the agent starts for it, if there is one."""
    home: Home

    def binder(self, **broker: object) -> BrokerBinder:
        """The binder of a site whose broker has these settings."""
        spec = BrokerSpec.model_validate({"kind": self.kind, **broker})
        state = new_mesh(MeshSpec(sites=[SiteSpec(name=SITE, broker=spec)]))
        self.home.create_site(SITE)
        return self.make(state.site(SITE), self.home)

    def install(self, patch: pytest.MonkeyPatch, *programs: str | None) -> None:
        """Let these programs, which do nothing, be all that is installed."""
        directory = self.home.root / "bin"
        directory.mkdir(parents=True)
        for program in programs:
            if program is not None:
                (directory / program).touch(mode=0o755)
        patch.setenv("PATH", str(directory))
        patch.setattr(binaries, "SERVER_DIRECTORIES", ())


class BrokerSuite:
    """Needs a fixture `broker`."""

    def test_processes_when_created_again_then_are_the_same_and_bear_the_sites_name(
        self, broker: UnboundBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.install(monkeypatch, broker.program)
        binder = broker.binder()

        first, second = binder.create(), binder.create()

        assert bool(first) == (broker.program is not None)
        assert [(c.name, c.command, c.version) for c in first] == [
            (c.name, c.command, c.version) for c in second
        ]
        assert all(child.name.startswith(f"{SITE}-") and child.ready is not None for child in first)

    def test_configuration_when_written_then_no_other_user_can_read_it(
        self, broker: UnboundBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.install(monkeypatch, broker.program)

        children = broker.binder().create()

        files = [path for path in broker.home.broker(SITE).rglob("*") if path.is_file()]
        assert bool(files) == bool(children)
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} <= {0o600}

    def test_program_when_it_is_missing_then_the_error_names_it(
        self, broker: UnboundBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.install(monkeypatch)
        if broker.program is None:
            assert not broker.binder().create()
            return
        with pytest.raises(TowpathError, match=broker.program) as missing:
            broker.binder().create()
        assert missing.value.detail.allowed

    def test_processes_when_the_broker_runs_elsewhere_then_there_are_none(
        self, broker: UnboundBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.install(monkeypatch)

        assert not broker.binder(host="127.0.0.1", port=1883).create()

    async def test_ways_when_nothing_answers_then_say_so_in_one_line_and_go_on_until_cancelled(
        self, broker: UnboundBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refuse(**_: object) -> None:
            raise ConnectionRefusedError("nothing answers")

        monkeypatch.setattr(nats, "connect", refuse)  # The client itself would try for seconds.
        binder = broker.binder()
        ways = [asyncio.create_task(way) for way in (binder.mirror(), binder.publish())]
        try:
            before = binder.trouble()

            async def heard() -> bool:
                return all(way.done() for way in ways) or binder.trouble() != before

            await eventually(heard)
            if all(way.done() for way in ways):
                assert binder.trouble() is None, "the site's own server shows its trouble itself"
                assert [way.exception() for way in ways] == [None, None]
            else:
                assert not any(way.done() for way in ways)
                assert binder.trouble()
                assert "\n" not in str(binder.trouble())
        finally:
            await asyncio.wait_for(end(ways), WITHIN_S)
