"""Hashes of passwords, tokens, and the credentials of services."""

from __future__ import annotations

import base64
import hashlib
import secrets

from pydantic import ConfigDict, Field

from towpath.contracts.credential import PASSWORD_BYTES, Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model

_ITERATIONS = 101
"""As mosquitto_passwd has it. More would gain nothing, because the passwords are 192 random bits."""


def pbkdf2(password: str) -> str:
    """Return the hash of a password in the form of mosquitto_passwd. Equal for equal passwords."""
    salt = hashlib.blake2b(password.encode(), digest_size=12, person=b"mosquitto").digest()
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def bridge_session(login: Credential) -> str:
    """Return the name of a bridge's session at its broker, which must be that of no other mesh."""
    return hashlib.blake2b(login.password.encode(), digest_size=4).hexdigest()


def random_token() -> str:
    """Return a fresh bearer token."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


class Logins(Model):
    """A model that holds the credentials of services beside its fields, each under the name of its service.

    A service that this installation does not know keeps its credential.
    """

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Credential | None] = Field(init=False)  # type: ignore[assignment]
    """None: the service never ran here."""

    @property
    def logins(self) -> dict[str, Credential]:
        """Service → its credential."""
        return {name: login for name, login in self.__pydantic_extra__.items() if login is not None}

    def login(self, service: str) -> Credential:
        """Return the credential of a service. Raises `TowpathError` (not allowed) when it has none."""
        try:
            return self.logins[service]
        except KeyError:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"this mesh has no credential for the service {service!r} yet: run `towpath up`",
                field="service",
                value=service,
                allowed=sorted(self.logins),
            ) from None
