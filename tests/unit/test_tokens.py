"""Tokens are kept as hashes, and are void as soon as they are revoked or expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.role import Role
from towpath.mesh.tokens import OWNER, KnownTokens, add_token, revoke_token, saved_tokens

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_token_when_added_then_only_its_hash_is_kept_for_the_owner_of_the_file(path: Path) -> None:
    text, token = add_token(path, "ada", Role.OPERATE, AT)

    assert text.startswith("towpath_")
    assert text not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert saved_tokens(path) == [token]
    assert (token.name, token.role, token.expires) == ("ada", Role.OPERATE, AT)


def test_tokens_when_their_file_changes_then_are_known_at_once(path: Path) -> None:
    known = KnownTokens(path, "the owner's")
    text, token = add_token(path, "ada", Role.VIEW, None)
    other, _ = add_token(path, "bob", Role.ADMIN, None)
    assert known.find(text) == token
    assert known.is_valid(token)

    revoke_token(path, "ada")

    assert known.find(text) is None
    assert not known.is_valid(token)
    assert known.find(other) is not None


def test_token_when_it_expires_then_is_void(path: Path) -> None:
    clock = Clock()
    known = KnownTokens(path, "the owner's", clock)
    _, token = add_token(path, "ada", Role.VIEW, AT + timedelta(days=1))
    assert known.is_valid(token)

    clock.now += timedelta(days=1)

    assert not known.is_valid(token)


def test_token_when_another_of_its_name_takes_its_place_then_is_void(path: Path) -> None:
    known = KnownTokens(path, "the owner's")
    _, token = add_token(path, "ada", Role.ADMIN, None)
    revoke_token(path, "ada")
    add_token(path, "ada", Role.VIEW, None)
    assert not known.is_valid(token)


def test_owner_when_the_file_is_missing_or_unreadable_then_is_admin_and_alone(path: Path) -> None:
    known = KnownTokens(path, "the owner's")
    text, _ = add_token(path, "ada", Role.ADMIN, None)
    path.write_text("{")

    assert known.find(text) is None
    owner = known.find("the owner's")
    assert owner is not None
    assert (owner.name, owner.role, known.is_valid(owner)) == (OWNER, Role.ADMIN, True)


@pytest.mark.parametrize("name", ["ada", OWNER])
def test_name_when_taken_then_is_refused(path: Path, name: str) -> None:
    add_token(path, "ada", Role.VIEW, None)
    with pytest.raises(TowpathError) as caught:
        add_token(path, name, Role.VIEW, None)
    assert caught.value.detail.code is ErrorCode.NAME_IN_USE


def test_name_when_it_is_no_name_or_unknown_then_is_refused(path: Path) -> None:
    with pytest.raises(TowpathError) as caught:
        add_token(path, "ada@home", Role.VIEW, None)
    assert caught.value.detail.field == "name"
    with pytest.raises(TowpathError) as caught:
        revoke_token(path, "eve")
    assert (caught.value.detail.field, caught.value.detail.value) == ("name", "eve")


def test_role_when_compared_then_includes_the_ones_before_it() -> None:
    assert [[one.includes(other) for other in Role] for one in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert Role.OPERATE.and_above == ["operate", "admin"]
