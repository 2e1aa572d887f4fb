"""A user of a server, with its password."""

from __future__ import annotations

import secrets

from towpath.contracts.message import Model

PASSWORD_BYTES = 24
"""192 random bits. No one can guess them, not even offline."""


class Credential(Model):
    """A user name and its password."""

    user: str
    password: str

    @classmethod
    def random(cls, user: str) -> Credential:
        """Return a fresh password for `user`. A URL or a configuration need not quote it."""
        return cls(user=user, password=secrets.token_hex(PASSWORD_BYTES))
