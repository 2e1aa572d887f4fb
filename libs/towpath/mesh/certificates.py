"""The authority of a mesh, and the certificates that it signs. All are in `certificates/` of its directory.

| file | what it is | on which machine |
|---|---|---|
| `authority.pem` | the authority's certificate, with which everyone checks the others | all |
| `authority.key` | its key, which signs | the hub's |
| `hub-<serial>.pem` | certificate and key of the hub's server, of Redis' door, and of REST | the hub's |
| `<site>-<serial>.pem` | certificate and key of a site: to devices, to the hub and to Redis | the site's |
| `<site>.key` | key of a site that joins, until it has its certificate | the site's |

`up` makes what is missing, and renews a certificate when less than a third of its time is left, or when names
were added. A renewed certificate has a file of its own name, so servers notice it by their configuration. A
site on another machine cannot ask by itself, so its certificate lasts as long as the authority;
`towpath site rotate-keys` renews it. A certificate opens nothing without the site's passwords: those are
replaced or removed, no certificate is called back.

The authority signs nothing of a request but its key. So a site that joins cannot get a certificate with the
names of the hub.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState, SiteAccess
from towpath.mesh.tls_files import TlsFiles

LIFETIME = timedelta(days=397)
"""The longest that browsers take."""

AUTHORITY_LIFETIME = timedelta(days=3650)

RENEW_AT = 1 / 3
"""Share of a certificate's time. An `up` every eight months is enough."""

BACKDATED = timedelta(hours=1)
"""Clocks of machines may differ."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


def with_certificates(state: MeshState, home: Home) -> MeshState:
    """Return the mesh with certificates of its hub and its sites on this machine, made where they are missing
    or nearly over. A mesh that encrypts nothing has none. Raises `TowpathError` for a file that is not there.
    """
    if not state.spec.is_encrypted:
        sites = {
            name: access if access.is_elsewhere else access.model_copy(update={"tls": None, "mqtt_tls": None})
            for name, access in state.sites.items()
        }
        return state.model_copy(update={"tls": None, "api_tls": None, "sites": sites})
    issuer = _Issuer(home)
    hub = issuer.current(state.tls, HUB_SCOPE, _hub_names(state))
    own = _own(state)
    sites = {
        name: access if access.is_elsewhere else _with_certificate(issuer, state, access, own)
        for name, access in state.sites.items()
    }
    return state.model_copy(update={"tls": hub, "api_tls": own or hub, "sites": sites})


def _with_certificate(
    issuer: _Issuer, state: MeshState, access: SiteAccess, own: TlsFiles | None
) -> SiteAccess:
    names = {*LOCAL_NAMES, access.spec.listen, socket.gethostname(), *state.spec.tls.names}
    site = issuer.current(access.tls, access.spec.name, names)
    return access.model_copy(update={"tls": site, "mqtt_tls": own or site})


def _hub_names(state: MeshState) -> set[str]:
    spec = state.spec
    addresses = (spec.addresses.hub, spec.addresses.redis, spec.addresses.links)
    given = (*state.hub_names, *spec.tls.names, *(each for each in addresses if each))
    return {*LOCAL_NAMES, spec.listen, socket.gethostname(), *given}


def _own(state: MeshState) -> TlsFiles | None:
    """Return the operator's own certificate for REST and MQTT, if there is one."""
    tls = state.spec.tls
    if tls.certificate_file is None or tls.key_file is None:
        return None
    for field in ("certificate_file", "key_file", "ca_file"):
        path = getattr(tls, field)
        if path is not None and not Path(path).is_file():
            raise TowpathError(
                ErrorCode.INVALID, "no such file", field=f"tls.{field}", value=path, allowed="a PEM file"
            )
    return TlsFiles(certificate_file=tls.certificate_file, key_file=tls.key_file, ca_file=tls.ca_file)


def authority_of(home: Home) -> str:
    """Return the authority's certificate, PEM."""
    return authority_file(home).read_text()


def signed(home: Home, site: str, request: str | None) -> str:
    """Return the certificate of a site that joins, PEM. Raises `TowpathError` (invalid) for a bad request."""
    try:
        asked = x509.load_pem_x509_csr((request or "").encode())
        key = asked.public_key()
        if not asked.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("not signed by a key of an elliptic curve")
    except (ValueError, InvalidSignature) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"the mesh encrypts, and this is no request for a certificate: {error}",
            field="certificate_request",
            allowed="PKCS #10, PEM, for a key of an elliptic curve",
        ) from error
    issuer = _Issuer(home)
    return _pem(issuer.sign(key, site, LOCAL_NAMES, issuer.certificate.not_valid_after_utc))


def certificate_request(home: Home, site: str, authority: str) -> str:
    """Keep the mesh's authority on the machine that joins, and make a key. Return the request for it, PEM.

    The same key is asked for again.
    """
    make_private_directory(home.certificates)
    write_private_file(authority_file(home), authority)
    path = home.certificates / f"{site}.key"
    if not path.exists():
        write_private_file(path, _key_text(ec.generate_private_key(ec.SECP256R1())))
    key = _read_key(path)
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(site)).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def received(access: SiteAccess, home: Home, certificate: str) -> SiteAccess:
    """Keep the certificate of a site that has joined, with its key. Return the site with it."""
    site = access.spec.name
    key_file = home.certificates / f"{site}.key"
    key = key_file.read_text()
    serial = x509.load_pem_x509_certificate(certificate.encode()).serial_number
    files = _written(home, f"{site}-{serial:x}", certificate, key)
    key_file.unlink()
    return access.model_copy(update={"tls": files, "mqtt_tls": files})


class _Issuer:
    """The authority, made when it is first needed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        make_private_directory(home.certificates)
        key_file, file = home.certificates / "authority.key", authority_file(home)
        if not (file.exists() and key_file.exists()):
            key = ec.generate_private_key(ec.SECP256R1())
            write_private_file(key_file, _key_text(key))
            write_private_file(file, _pem(_self_signed(key)))
        self._key = _read_key(key_file)
        self.certificate = x509.load_pem_x509_certificate(file.read_bytes())

    def current(self, before: TlsFiles | None, name: str, names: Iterable[str]) -> TlsFiles:
        """Return the certificate `before`, or a new one if that does not do any more."""
        wanted = _alternatives(names)
        if before is not None and self._is_good(Path(before.certificate_file), wanted):
            return before
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(datetime.now(UTC) + LIFETIME, self.certificate.not_valid_after_utc)
        made = self.sign(key.public_key(), name, names, until)
        return _written(self._home, f"{name}-{made.serial_number:x}", _pem(made), _key_text(key))

    def _is_good(self, file: Path, wanted: list[x509.GeneralName]) -> bool:
        if file.parent != self._home.certificates or not file.exists():
            return False  # The mesh was moved to another directory.
        found = x509.load_pem_x509_certificate(file.read_bytes())
        try:
            found.verify_directly_issued_by(self.certificate)
        except (ValueError, InvalidSignature):
            return False
        left = found.not_valid_after_utc - datetime.now(UTC)
        there = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return left > LIFETIME * RENEW_AT and list(there) == wanted

    def sign(
        self, key: ec.EllipticCurvePublicKey, name: str, names: Iterable[str], until: datetime
    ) -> x509.Certificate:
        """Return a certificate with which `name` may serve under `names`, and be a client."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return (
            _builder(name, key, self.certificate.subject, until)
            .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = "Towpath mesh"
    signs = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, key.public_key(), _subject(name), datetime.now(UTC) + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .sign(key, hashes.SHA256())
    )


def _builder(
    name: str, key: ec.EllipticCurvePublicKey, issuer: x509.Name, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    """Return the names of a certificate. An address that means all addresses of a machine is none."""
    found: list[x509.GeneralName] = []
    for name in sorted({name.strip("[]") for name in names}):
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            found.append(_dns_name(name))
        else:
            found += [] if address.is_unspecified else [x509.IPAddress(address)]
    return found


def _dns_name(name: str) -> x509.DNSName:
    try:
        return x509.DNSName(name)
    except ValueError:
        raise TowpathError(
            ErrorCode.INVALID, "no name for a certificate", field="tls.names", value=name, allowed="ASCII"
        ) from None


def authority_file(home: Home) -> Path:
    """Return the path of the authority's certificate."""
    return home.certificates / "authority.pem"


def _written(home: Home, name: str, certificate: str, key: str) -> TlsFiles:
    """Write certificate and key into one file, and return it with the authority."""
    path = str(home.certificates / f"{name}.pem")
    write_private_file(Path(path), certificate + key)
    return TlsFiles(certificate_file=path, key_file=path, ca_file=str(authority_file(home)))


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return encoded.decode()


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key
