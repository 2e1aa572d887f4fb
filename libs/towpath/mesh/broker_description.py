"""Check the description of a site's broker: files and topic filters."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import BrokerSpec

_FILES = ("password_file", "ca_file", "certificate_file", "key_file")


def check_broker(broker: BrokerSpec) -> None:
    """Raise `TowpathError` for missing files, relative paths, and topic filters that are wrong.

    Two filters must not match one topic: its events would come twice.
    """
    _check_files(broker)
    for position, each in enumerate(broker.subscribe):
        if not _is_filter(each):
            raise _wrong_filter("not a topic filter", each, "levels between slashes, + for any, # at the end")
        for other in broker.subscribe[:position]:
            if _meet(each.split("/"), other.split("/")):
                raise _wrong_filter(
                    f"{other!r} matches the same topics", each, "filters that have none in common"
                )
    if broker.host is not None and not broker.shared_device:
        raise TowpathError(
            ErrorCode.INVALID,
            f"the broker at {broker.host} has users of its own, and Towpath gives it none",
            field="broker.shared_device",
            value=False,
            allowed="true, or a broker without a host",
        )
    if not broker.subscribe:
        raise _wrong_filter("nothing is subscribed to", "", "topic filters, such as site/#")


def _is_filter(text: str) -> bool:
    levels = text.split("/")
    plain = (level in ("+", "#") or not set(level) & {"+", "#", "\0"} for level in levels)
    return bool(text) and all(plain) and "#" not in levels[:-1]


def _meet(left: list[str], right: list[str]) -> bool:
    """Return True if some topic matches both filters. `a/#` matches `a`, too."""
    if left[:1] == ["#"] or right[:1] == ["#"] or not (left or right):
        return True
    if not left or not right:
        return False
    same = left[0] == right[0] or "+" in (left[0], right[0])
    return same and _meet(left[1:], right[1:])


def _wrong_filter(message: str, value: str, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, message, field="broker.subscribe", value=value, allowed=allowed)


def _check_files(broker: BrokerSpec) -> None:
    for field in _FILES:
        value: str | None = getattr(broker, field)
        if value is not None and not (Path(value).is_absolute() and Path(value).is_file()):
            raise TowpathError(
                ErrorCode.INVALID,
                "no such file",
                field=f"broker.{field}",
                value=value,
                allowed="the absolute path of a file",
            )


def broker_password(broker: BrokerSpec) -> str:
    """Return the first line of the password file; empty where there is none. Raises `TowpathError`."""
    if broker.password_file is None:
        return ""
    try:
        return Path(broker.password_file).read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"the broker's password cannot be read: {error}",
            field="broker.password_file",
            value=broker.password_file,
            allowed="a file with the password in its first line",
        ) from error
