"""Packages on a gateway: verified, unpacked safely, installed whole or not at all."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from towpath.contracts.gateway import Code, InstallPackage
from towpath.gateways.download import digest_of
from towpath.gateways.ed25519 import verifies
from towpath.gateways.package_shelf import PackageLimits, PackageShelf
from towpath.gateways.packing import pack
from towpath.gateways.refusal import Refusal

# Tests 1 to 3 of RFC 8032, section 7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signature_when_it_is_that_of_the_message_then_verifies(
    key: str, message: str, signature: str
) -> None:
    pieces = [bytes([each]) for each in bytes.fromhex(message)]
    assert verifies(bytes.fromhex(key), bytes.fromhex(signature), pieces)


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signature_when_a_bit_differs_then_does_not_verify(key: str, message: str, signature: str) -> None:
    good = bytes.fromhex(signature)
    for place in (0, 31, 32, 63):
        wrong = bytearray(good)
        wrong[place] ^= 1
        assert not verifies(bytes.fromhex(key), bytes(wrong), [bytes.fromhex(message)])
    assert not verifies(bytes.fromhex(key), good, [b"other"])
    assert not verifies(bytes.fromhex(key), good[:63], [bytes.fromhex(message)])
    assert not verifies(b"\xff" * 32, good, [bytes.fromhex(message)])


def manifest(version: str = "1", **changes: object) -> dict[str, object]:
    return {
        "name": "thin",
        "version": version,
        "input": {"topics": ["t"]},
        "operators": [{"operator": "sample", "every": "$every"}],
        "output": "site/thin",
        "properties": {"every": 2},
        **changes,
    }


@pytest.fixture
def wanted(tmp_path: Path) -> Callable[..., InstallPackage]:
    """Pack a package of a version, and return the body of its installation."""

    def packed(version: str = "1", **changes: object) -> InstallPackage:
        source = tmp_path / f"source-{version}"
        source.mkdir(exist_ok=True)
        (source / "manifest.json").write_text(json.dumps(manifest(version, **changes)))
        read, path, digest = pack(source, tmp_path)
        return InstallPackage(read.name, path.as_uri(), digest, read.version)

    return packed


OPERATORS = [
    {"operator": "sample", "every": "$every"},
    {"operator": "map", "constants": {"offset": "$offset"}},
]


def shelf_at(tmp_path: Path, **limits: object) -> PackageShelf:
    return PackageShelf(tmp_path / "gateway", PackageLimits(**limits))  # type: ignore[arg-type]


def ignore(_: int) -> None:
    """No one is told of progress."""


def install(shelf: PackageShelf, package: InstallPackage) -> None:
    shelf.fetch(package, ignore)
    shelf.install(package)
    shelf.settle(package.name)


def test_package_when_installed_then_is_there_after_a_restart(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    package = wanted()
    install(shelf_at(tmp_path), package)
    shelf = shelf_at(tmp_path)
    assert shelf.is_installed(package)
    assert shelf.record("thin").properties == {"every": 2}
    assert (shelf.directory("thin") / "manifest.json").exists()


def test_package_when_a_new_version_is_installed_then_keeps_properties_and_drops_the_old_files(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted("1"))
    shelf.keep("thin", shelf.changed("thin", {"every": "7"}))
    install(shelf, wanted("2"))
    assert (shelf.record("thin").manifest.version, shelf.record("thin").properties) == ("2", {"every": 7})
    assert len([*(tmp_path / "gateway/packages/thin").iterdir()]) == 1


def test_new_version_when_it_does_not_start_then_the_former_one_comes_back_also_after_a_kill(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted("1"))
    shelf.keep("thin", shelf.changed("thin", {"every": 7}))
    shelf.fetch(wanted("2"), ignore)
    shelf.install(wanted("2"))

    again = shelf_at(tmp_path)
    assert again.record("thin").manifest.version == "2"
    again.undo("thin")

    found = shelf_at(tmp_path)
    assert (found.record("thin").manifest.version, found.record("thin").properties) == ("1", {"every": 7})
    assert (found.directory("thin") / "manifest.json").exists()
    assert len([*(tmp_path / "gateway/packages/thin").iterdir()]) == 1


def test_first_version_when_it_does_not_start_then_nothing_is_installed(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    shelf.fetch(wanted("1"), ignore)
    shelf.install(wanted("1"))

    assert shelf.undo("thin") is None

    assert shelf.installed == {}


def test_package_when_installed_under_another_name_then_both_are_there(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted())
    install(shelf, msgspec.structs.replace(wanted(), name="thinner", properties={"every": 9}))
    assert {name: each.properties["every"] for name, each in shelf.installed.items()} == {
        "thin": 2,
        "thinner": 9,
    }


def test_properties_when_they_are_replaced_then_others_have_the_manifests_values(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted(properties={"every": 2, "offset": 0}, operators=OPERATORS))
    shelf.keep("thin", shelf.changed("thin", {"offset": 5}))
    assert shelf.keep("thin", shelf.changed("thin", {"every": 3}, replace=True)).properties == {
        "every": 3,
        "offset": 0,
    }


def test_package_when_killed_between_fetching_and_installing_then_nothing_is_left_over(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted("1"))
    shelf.fetch(wanted("2"), ignore)
    again = shelf_at(tmp_path)
    assert again.record("thin").manifest.version == "1"
    assert [each.name for each in (tmp_path / "gateway/packages/thin").iterdir()] == [
        again.record("thin").sha256
    ]


def test_package_when_killed_between_forgetting_and_deleting_then_nothing_is_left_over(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted())
    shelf.uninstall("thin")
    again = shelf_at(tmp_path)
    assert (again.installed, [*(tmp_path / "gateway/packages").iterdir()]) == ({}, [])


def test_version_when_it_is_installed_with_another_content_then_conflicts(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    shelf = shelf_at(tmp_path)
    install(shelf, wanted())
    with pytest.raises(Refusal) as refused:
        shelf.is_installed(wanted(description="another"))
    assert refused.value.code is Code.CONFLICT


@pytest.mark.parametrize(
    ("field", "value", "code", "complaint"),
    [
        ("sha256", "0" * 64, 400, "another digest"),
        ("url", "ftp://here/x.zip", 400, "no such kind of address"),
        ("url", "file:///nowhere/x.zip", 500, "cannot be downloaded"),
        ("version", "9", 400, "the manifest says otherwise"),
        ("properties", {"each": 1}, 400, "no such property"),
    ],
)
def test_package_when_its_request_is_wrong_then_is_refused(
    tmp_path: Path,
    wanted: Callable[..., InstallPackage],
    field: str,
    value: object,
    code: int,
    complaint: str,
) -> None:
    package = wanted()
    values = {name: getattr(package, name) for name in package.__struct_fields__} | {field: value}
    with pytest.raises(Refusal, match=complaint) as refused:
        shelf_at(tmp_path).fetch(InstallPackage(**values), ignore)
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["../outside.py", "/tmp/outside.py", "a/../../outside.py"])
def test_archive_when_a_name_leads_outside_then_nothing_is_unpacked(tmp_path: Path, name: str) -> None:
    package = archive(tmp_path, {"manifest.json": json.dumps(manifest()), name: "x"})
    with pytest.raises(Refusal, match="outside of the package"):
        shelf_at(tmp_path).fetch(package, ignore)
    assert not [*tmp_path.rglob("outside.py")]


def test_archive_when_it_unpacks_to_too_much_then_is_refused(tmp_path: Path) -> None:
    package = archive(tmp_path, {"manifest.json": json.dumps(manifest()), "zeros": "0" * 3_000_000})
    with pytest.raises(Refusal, match="too large when unpacked"):
        shelf_at(tmp_path, max_mb=1).fetch(package, ignore)


def test_archive_when_it_is_too_large_then_its_download_ends(tmp_path: Path) -> None:
    path = tmp_path / "big.zip"
    path.write_bytes(b"0" * 3_000_000)
    with pytest.raises(Refusal, match="too large"):
        shelf_at(tmp_path, max_mb=1).fetch(InstallPackage("a", path.as_uri(), digest_of(path), "1"), ignore)


@pytest.mark.parametrize("content", [b"no zip", b""])
def test_archive_when_it_is_no_zip_then_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(Refusal, match="cannot be unpacked"):
        shelf_at(tmp_path).fetch(InstallPackage("a", path.as_uri(), digest_of(path), "1"), ignore)


def archive(tmp_path: Path, files: dict[str, str]) -> InstallPackage:
    path = tmp_path / "made.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return InstallPackage("thin", path.as_uri(), digest_of(path), "1")


def test_package_when_the_gateway_has_a_key_then_only_a_signed_one_is_installed(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    key = base64.b64encode(bytes.fromhex(VECTORS[0][0])).decode()
    shelf = shelf_at(tmp_path, public_key=key)
    package = wanted()
    for signature in (None, "", "!", base64.b64encode(bytes(64)).decode()):
        signed = InstallPackage(package.name, package.url, package.sha256, package.version, signature)
        with pytest.raises(Refusal):
            shelf.fetch(signed, ignore)


def test_example_packages_when_packed_then_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for source in sorted((Path(__file__).parents[2] / "examples/gateways").iterdir()):
        if source.is_dir():
            _, first, digest = pack(source, tmp_path)
            shutil.copy(first, tmp_path / "copy.zip")
            assert pack(source, tmp_path)[2] == digest == digest_of(tmp_path / "copy.zip")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_package_when_openssl_signed_it_then_is_installed(
    tmp_path: Path, wanted: Callable[..., InstallPackage]
) -> None:
    package = wanted()
    archive = package.url.removeprefix("file://")
    key = str(tmp_path / "key.pem")

    def openssl(*arguments: str) -> bytes:
        return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout

    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    public = openssl("pkey", "-in", key, "-pubout", "-outform", "DER")[-32:]
    signature = openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", archive)
    shelf = shelf_at(tmp_path, public_key=base64.b64encode(public).decode())
    encoded = base64.b64encode(signature).decode()
    install(shelf, InstallPackage(package.name, package.url, package.sha256, package.version, encoded))
    assert shelf.installed["thin"].manifest.version == "1"
