"""The roles of people at the REST interface: what the holder of a token may do."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The rights of a token. Each role includes the ones before it."""

    VIEW = "view"
    """Look: state, events, results, answers, measurements. Nothing that runs code of users."""
    OPERATE = "operate"
    """Also change jobs, pipelines, queries, plans and broadcasts, and answer the autopilot. Jobs may bring
    code, so this role runs code at the sites."""
    ADMIN = "admin"
    """Also break the mesh on purpose: load and unload fault rules."""

    def includes(self, other: Role) -> bool:
        """Return True if this role allows all that the other one does."""
        return _ORDER.index(self) >= _ORDER.index(other)

    @property
    def and_above(self) -> list[str]:
        """The roles that include this one, the least first."""
        return [role.value for role in _ORDER if role.includes(self)]


_ORDER = tuple(Role)

VIEW, OPERATE, ADMIN = Role.VIEW, Role.OPERATE, Role.ADMIN
PUBLIC: Role | None = None
"""In the place of a role: answered without a token."""
