"""Files with which one end of an encrypted connection shows who it is, and checks the other."""

from __future__ import annotations

import ssl
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model


class TlsFiles(Model):
    """A certificate with its key, and the authority to check others with. All are paths of PEM files."""

    certificate_file: str
    key_file: str
    ca_file: str | None = None
    """None: the system's authorities."""

    def server_block(self, **further: Any) -> dict[str, Any]:
        """Return the `tls` block of a nats-server."""
        authority = {"ca_file": self.ca_file} if self.ca_file else {}
        return {"cert_file": self.certificate_file, "key_file": self.key_file, **authority, **further}

    def redis_options(self) -> dict[str, Any]:
        """Return options of a client of Redis that shows this certificate."""
        return {
            "ssl": True,
            "ssl_ca_certs": self.ca_file,
            "ssl_certfile": self.certificate_file,
            "ssl_keyfile": self.key_file,
            "ssl_check_hostname": True,
        }


def client_context(ca_file: str | None) -> ssl.SSLContext:
    """Return how a client checks a server. Raises `TowpathError` (failed) if the file cannot be read."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise TowpathError(
            ErrorCode.FAILED,
            f"the authority's certificate cannot be read: {error}",
            field="ca_file",
            value=ca_file,
            allowed="a PEM file; `towpath up` makes that of the mesh's own authority",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def server_context(shown: TlsFiles, *, asks_clients: bool) -> ssl.SSLContext:
    """Return how a server shows itself. With `asks_clients`, it takes only those with a certificate of the
    authority. Raises `OSError` if a file cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(shown.certificate_file, shown.key_file)
    if asks_clients:
        context.load_verify_locations(cafile=shown.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
