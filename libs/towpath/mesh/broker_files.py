"""The files that a site's broker is described with: password and certificates."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import BrokerSpec

_FILES = ("password_file", "ca_file", "certificate_file", "key_file")


def check_broker_files(broker: BrokerSpec) -> None:
    """Raise `TowpathError` for a file that is not there, or whose path depends on who looks."""
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
    """The first line of the password file; empty where there is none. Raises `TowpathError`."""
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
