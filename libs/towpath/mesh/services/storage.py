"""A site's storage: keeps values of the site, and answers for them."""

from __future__ import annotations

from towpath.contracts.storage import SITE_VALUE_COMMANDS
from towpath.mesh.permissions import READ, Rights, own_calls, reading_elsewhere, site_calls
from towpath.mesh.service_table import Service, register
from towpath.mesh.state import MeshState


def settings(state: MeshState, _: str) -> list[str]:
    """Return what is stored, and how long."""
    return [state.spec.storage.model_dump_json()]


STORAGE = register(
    Service(
        name="storage",
        summary="keeps measured values, applications' values and answers of a site",
        module="towpath.storage",
        one_per_site=True,
        started_by_agent=True,
        rights=lambda site: Rights(
            publish=[*own_calls(READ), *site_calls(site, READ), *reading_elsewhere(site)],
            subscribe=[kind.wildcard(site=site) for kind in SITE_VALUE_COMMANDS],
            answers=True,
        ),
        runs=lambda spec: spec.storage.enabled,
        settings=settings,
        keeps_files=True,
    )
)
