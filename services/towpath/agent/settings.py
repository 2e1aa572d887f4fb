"""Settings of an agent's process, from the mesh's state on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from towpath.brokers.binder import BrokerBinder
from towpath.brokers.binders import binder_of
from towpath.contracts.job import JobSpec
from towpath.contracts.site import Durability
from towpath.engines.binder import EngineBinder
from towpath.engines.binders import engine_binder
from towpath.engines.setup import EngineSetup, renew_password
from towpath.mesh.current_keys import current_password
from towpath.mesh.home import Home
from towpath.mesh.servers import site_server
from towpath.mesh.service_child import service_child
from towpath.mesh.service_table import SITE_SERVER, site_services
from towpath.mesh.state import MeshState, SiteAccess
from towpath.processes import ChildSpec


@dataclass(frozen=True)
class AgentSettings:
    """Settings of one agent."""

    site: str
    home: Home
    access: SiteAccess
    redis_host: str
    redis_port: int
    server: Callable[[bool], ChildSpec]
    """Writes the configuration of the site's server and returns the server, which admits devices or not."""
    binder: BrokerBinder
    """The way to the broker that devices use."""
    engine: EngineBinder
    """Starts the engine, and reads its checkpoints."""
    engine_environment: Callable[[str], dict[str, str]]
    """Environment of an engine's process of this name, beside the usual."""
    password: Callable[[], str]
    """Returns the agent's present password at the site's server."""
    services: Sequence[ChildSpec]
    """Processes that run all the time beside the engine."""

    @classmethod
    def of(cls, root: Path, site: str) -> AgentSettings:
        """Return the settings of a site of the mesh at `root`."""
        home = Home(root)
        state = MeshState.load(home)
        home.create_site(site)
        redis_host, redis_port = state.redis_remote(state.site(site))
        return cls(
            site=site,
            home=home,
            access=state.site(site),
            redis_host=redis_host,
            redis_port=redis_port,
            # Its keys, and users of devices, may be replaced while the agent runs.
            server=lambda admits: site_server(MeshState.load(home), site, home, admits_devices=admits),
            binder=binder_of(state.site(site), home),
            engine=engine_binder(state.site(site).spec.engine),
            engine_environment=partial(state.process_environment, home, site),
            password=current_password(home, state.site(site), "agent"),
            services=_services(state, site, home),
        )

    def tell_engines(self, access: SiteAccess) -> None:
        """Tell all engines of the site their key, after the site's keys were replaced."""
        renew_password(self.home.engine(self.site), access.login("engine").password)

    def engine_setup(self, job: JobSpec | None, temporary: Path | None) -> EngineSetup:
        """Return what the site's shared engine is told, or the engine of one job. See `EngineSetup`."""
        spec, login = self.access.spec, self.access.login("engine")
        return EngineSetup(
            site=self.site,
            nats_url=self.access.nats_url,
            user=login.user,
            password=current_password(self.home, self.access, "engine")(),
            spec=spec.engine,
            observation=spec.observation,
            durable=spec.durability is Durability.POWER_SAFE,
            temporary=temporary,
            job=None if job is None else job.name,
            container=None if job is None else job.container,
        )


def _services(state: MeshState, site: str, home: Home) -> list[ChildSpec]:
    """Return the services of the site that its agent starts. Engines are started for jobs."""
    started = (each for each in site_services() if each.started_by_agent and each.runs(state.spec))
    after = (f"{site}-{SITE_SERVER}",)
    return [
        replace(service_child(each, state, home, site), after=after)
        for each in started
        if each.name != "engine"
    ]
