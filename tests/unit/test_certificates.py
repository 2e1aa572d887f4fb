"""The authority of a mesh signs what is needed, renews what is nearly over, and believes no request."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.mesh import certificates
from towpath.mesh.certificates import authority_file, certificate_request, received, signed
from towpath.mesh.home import Home
from towpath.mesh.joining import admitted, invited, join_command, joining_mesh
from towpath.mesh.provisioning import provision
from towpath.mesh.service_table import REDIS_DOOR, processes_of
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import TlsFiles, server_context
from towpath.supervisor.app import children

HUB = "192.0.2.10"
TLS = TlsSpec(enabled=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "hub")


def spec(**options: object) -> MeshSpec:
    return MeshSpec.model_validate({"sites": [{"name": "jfk"}], "tls": TLS, **options})


def certificate_of(files: TlsFiles | None) -> x509.Certificate:
    assert files is not None
    return x509.load_pem_x509_certificate(Path(files.certificate_file).read_bytes())


def names_of(files: TlsFiles | None) -> set[str]:
    found = certificate_of(files).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def test_mesh_when_it_listens_on_this_machine_alone_then_it_has_no_certificates(home: Home) -> None:
    state = provision(home, MeshSpec(sites=[SiteSpec(name="jfk")]))

    assert (state.tls, state.api_tls, state.site("jfk").tls, state.hub_url[:7]) == (
        None,
        None,
        None,
        "nats://",
    )
    assert not home.certificates.exists()


@pytest.mark.parametrize("where", ["mesh", "site"])
def test_mesh_when_other_machines_reach_it_then_it_encrypts(home: Home, where: str) -> None:
    sites = [SiteSpec(name="jfk", listen="0.0.0.0" if where == "site" else "127.0.0.1")]
    state = provision(home, MeshSpec(sites=sites, listen="0.0.0.0" if where == "mesh" else "127.0.0.1"))

    access = state.site("jfk")
    assert (state.hub_url[:6], state.api_url[:8], access.mqtt_is_encrypted) == ("tls://", "https://", True)
    assert (access.nats_listen, state.redis_host) == ("127.0.0.1", "127.0.0.1")
    assert state.redis_port != state.redis_entry[1]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in home.certificates.iterdir()}
    assert modes == {0o600}


def test_mesh_when_encryption_is_off_and_other_machines_reach_it_then_it_is_refused(home: Home) -> None:
    with pytest.raises(TowpathError) as refused:
        provision(home, spec(listen="0.0.0.0", tls=TlsSpec(enabled=False)))

    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.NOT_ALLOWED, "tls.enabled")
    assert not home.state.exists()


def test_mesh_when_plain_connections_are_allowed_then_other_machines_may_reach_it(home: Home) -> None:
    state = provision(home, spec(listen="0.0.0.0", tls=TlsSpec(allow_plain=True)))

    assert (state.tls, state.redis_host) == (None, "127.0.0.1")


def test_mesh_when_executors_are_on_other_machines_then_encryption_is_refused(home: Home) -> None:
    site = SiteSpec(name="jfk", engine=EngineSpec(driver_host="192.0.2.1"))

    with pytest.raises(TowpathError) as refused:
        provision(home, spec(sites=[site]))

    assert refused.value.detail.field == "sites.0.engine.driver_host"


def test_mesh_when_it_runs_then_encryption_neither_begins_nor_ends(home: Home) -> None:
    provision(home, spec())

    with pytest.raises(TowpathError) as refused:
        provision(home, spec(tls=TlsSpec(enabled=False)), running=True)

    assert refused.value.detail.field == "tls.enabled"
    assert provision(home, spec(tls=TlsSpec(enabled=False))).tls is None


def test_processes_when_a_mesh_encrypts_then_redis_has_a_door(home: Home) -> None:
    started = {child.name for child in children(provision(home, spec()), home)}

    assert started | {"jfk-nats", "jfk-engine"} == set(processes_of(spec(), ["jfk"]))
    assert REDIS_DOOR in started


def test_certificates_when_the_mesh_comes_up_again_then_they_stay(home: Home) -> None:
    state = provision(home, spec())

    assert provision(home, spec()) == state


def test_certificates_when_they_are_nearly_over_then_they_are_renewed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LIFETIME", timedelta(days=100))
    old = provision(home, spec())
    monkeypatch.undo()

    new = provision(home, spec())

    assert old.tls != new.tls
    assert old.site("jfk").tls != new.site("jfk").tls
    assert certificate_of(new.tls).issuer == certificate_of(old.tls).issuer
    left = certificate_of(new.tls).not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=396) < left <= certificates.LIFETIME


def test_certificate_when_the_hub_is_given_a_name_then_a_new_one_has_it(home: Home) -> None:
    old = provision(home, spec())

    new = provision(home, spec(tls=TlsSpec(enabled=True, names=["towpath.example", HUB])))

    assert names_of(new.tls) - names_of(old.tls) == {"towpath.example", HUB}


def test_certificate_when_the_operator_has_one_then_devices_and_rest_are_shown_it_and_the_hub_is_not(
    home: Home, tmp_path: Path
) -> None:
    files = [str(tmp_path / name) for name in ("own.pem", "own.key")]
    for file in files:
        Path(file).touch()
    own = TlsSpec(enabled=True, certificate_file=files[0], key_file=files[1])

    state = provision(home, spec(tls=own))

    shown = TlsFiles(certificate_file=files[0], key_file=files[1])
    assert state.api_tls == state.site("jfk").mqtt_tls == shown
    assert state.site("jfk").mqtt_authority is None
    assert state.tls is not None
    assert state.tls.certificate_file not in files


def test_certificate_when_the_operators_own_is_not_there_then_the_setting_is_named(home: Home) -> None:
    with pytest.raises(TowpathError) as refused:
        provision(home, spec(tls=TlsSpec(enabled=True, certificate_file="/no", key_file="/no")))

    assert refused.value.detail.field == "tls.certificate_file"


def joined(home: Home, other: Home) -> MeshState:
    """Return what a machine keeps that has joined."""
    at = datetime.now(UTC)
    hub, bundle = invited(provision(home, spec(listen="0.0.0.0")), SiteSpec(name="barge"), HUB, 3600, at)
    own = joining_mesh(bundle)
    request = certificate_request(other.create(), "barge", certificates.authority_of(home))
    command = join_command(own.site("barge"), request)
    admitted(hub, command, at)
    site = received(own.site("barge"), other, signed(home, "barge", command.certificate_request))
    return own.model_copy(update={"sites": {"barge": site}})


def test_site_when_it_joins_then_it_has_a_certificate_and_keeps_its_key_to_itself(
    home: Home, tmp_path: Path
) -> None:
    own = joined(home, Home(tmp_path / "other"))

    files = own.site("barge").tls
    assert files is not None
    assert server_context(files, asks_clients=True).verify_mode
    assert (own.hub_url[:6], own.authority) == ("tls://", files.ca_file)
    certificate_of(files).verify_directly_issued_by(
        x509.load_pem_x509_certificate(certificates.authority_of(home).encode())
    )
    assert "barge" not in "".join(path.name for path in home.certificates.iterdir())
    assert not (tmp_path / "other" / "certificates" / "authority.key").exists()


def test_site_when_it_joins_then_its_certificate_has_no_name_of_the_hub(home: Home, tmp_path: Path) -> None:
    own = joined(home, Home(tmp_path / "other"))

    assert names_of(own.site("barge").tls) == {"localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize("request_text", [None, "", "-----BEGIN CERTIFICATE REQUEST-----\nx"])
def test_request_when_it_is_none_then_it_is_refused(home: Home, request_text: str | None) -> None:
    provision(home, spec())

    with pytest.raises(TowpathError) as refused:
        signed(home, "barge", request_text)

    assert refused.value.detail.field == "certificate_request"


def test_client_when_the_authority_is_not_there_then_the_file_is_named(home: Home) -> None:
    state = provision(home, spec())
    authority_file(home).unlink()

    with pytest.raises(TowpathError) as refused:
        state.hub_tls()

    assert refused.value.detail.value == str(authority_file(home))


def test_tls_when_a_certificate_has_no_key_then_the_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="need each other"):
        TlsSpec(certificate_file="own.pem")
