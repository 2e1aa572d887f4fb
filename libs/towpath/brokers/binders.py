"""The binders of all kinds of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.brokers.binder import BrokerBinder
from towpath.brokers.mosquitto import MosquittoBroker
from towpath.brokers.nats import NatsBroker
from towpath.contracts.site import BrokerKind
from towpath.mesh.home import Home
from towpath.mesh.state import SiteAccess

BINDERS: Mapping[BrokerKind, Callable[[SiteAccess, Home], BrokerBinder]] = {
    BrokerKind.NATS: lambda access, home: NatsBroker(),
    BrokerKind.MOSQUITTO: MosquittoBroker,
}


def binder_of(access: SiteAccess, home: Home) -> BrokerBinder:
    """Return the binder of a site's broker."""
    return BINDERS[access.spec.broker.kind](access, home)
