"""Settings of encryption."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from towpath.contracts.message import Model


class TlsSpec(Model):
    """Encryption of connections, with certificates of the mesh's own authority."""

    enabled: bool | None = None
    """Encrypt the hub, links of sites, Redis, REST and MQTT; null: if other machines reach the `listen` of
    the mesh or of a site. A mesh that exists keeps what it has when the whole table is left out."""
    allow_plain: bool = False
    """Let other machines reach a mesh that encrypts nothing. Passwords, events and state can then be read by
    everyone on the way."""
    names: list[str] = []
    """Further names and addresses under which REST, the page and the brokers of this machine are reached."""
    certificate_file: str | None = None
    """Your own certificate for REST, the page and MQTT, PEM, with those between it and its authority; null:
    one of the mesh's authority."""
    key_file: str | None = None
    """Its key, PEM."""
    ca_file: str | None = None
    """With which Towpath's own clients check it; null: the system's authorities."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file need each other")
        return self


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches an address."""
    return host in ("localhost", "::1") or host.startswith("127.")
