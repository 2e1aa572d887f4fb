"""Check the conditions for sites in containers before anything starts."""

from __future__ import annotations

from towpath.containers import images
from towpath.containers.daemon import check
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import MeshSpec, SiteSpec


def check_container_sites(spec: MeshSpec) -> None:
    """Make sure that each site with containers has a daemon and its image.

    Blocks, because an image may have to be loaded. Raises `TowpathError` with the site and the setting."""
    for index, site in enumerate(spec.sites):
        if site.container.is_docker:
            try:
                _check(site)
            except TowpathError as error:
                raise _at_site(error, index, site) from error


def _check(site: SiteSpec) -> None:
    container = site.container
    check(container.docker_host)
    images.ensure(container.image, container.image_archive, container.docker_host)


def _at_site(error: TowpathError, index: int, site: SiteSpec) -> TowpathError:
    detail = error.detail
    field = detail.field
    if field is not None and field.startswith("container."):
        field = f"sites.{index}.{field}"
    told = detail.model_copy(update={"message": f"{site.name}: {detail.message}", "field": field})
    return TowpathError.of(told)
