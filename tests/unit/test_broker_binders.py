"""Every broker of the registry behaves as agents need it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from broker_suite import BrokerSuite, UnboundBroker

from towpath.brokers.binders import BINDERS
from towpath.contracts.site import BrokerKind
from towpath.mesh.home import Home

PROGRAMS: Mapping[BrokerKind, str | None] = {BrokerKind.NATS: None, BrokerKind.MOSQUITTO: "mosquitto"}
"""The program that the agent starts for each. A new broker has a line here."""


class TestBrokers(BrokerSuite):
    """The suite, once for each broker."""

    @pytest.fixture(params=list(BrokerKind))
    def broker(self, request: pytest.FixtureRequest, tmp_path: Path) -> UnboundBroker:
        kind = request.param
        return UnboundBroker(kind, BINDERS[kind], PROGRAMS[kind], Home(tmp_path / "mesh"))
