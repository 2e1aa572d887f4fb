"""Read the settings of a mesh from a TOML file, or from a list of site names."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import NAME_PATTERN, is_name
from towpath.contracts.site import MeshSpec, SiteSpec


def load_spec(path: Path) -> MeshSpec:
    """Return the mesh that a `towpath.toml` describes. Raises `TowpathError` with field and allowed."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TowpathError(
            ErrorCode.INVALID, "no such file", field="config", value=str(path), allowed="a TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TowpathError(
            ErrorCode.INVALID, f"not TOML: {error}", field="config", value=str(path), allowed="a TOML file"
        ) from error
    spec = parse_spec(content)
    if spec.artefact_root is None:
        return spec
    # Relative to the file: the processes of the mesh work in another directory.
    root = (path.parent / Path(spec.artefact_root).expanduser()).resolve()
    return spec.model_copy(update={"artefact_root": str(root)})


def spec_of_sites(names: str) -> MeshSpec:
    """Return a mesh of sites with default settings, from names as in `--sites jfk,lga,cloud`."""
    sites = [name.strip() for name in names.split(",")]
    for name in sites:
        if not is_name(name):
            raise TowpathError(
                ErrorCode.INVALID, "not a site name", field="sites", value=name, allowed=NAME_PATTERN
            )
    return parse_spec({"sites": [{"name": name} for name in sites]})


def parse_spec(content: dict[str, Any]) -> MeshSpec:
    """Return the spec in parsed TOML. Raises `TowpathError`."""
    try:
        spec = MeshSpec.model_validate(content)
    except ValidationError as error:
        raise _explained(error) from error
    if "autopilot" in spec.model_fields_set:
        check_policy(spec.autopilot.policy, "autopilot.policy")
    return spec


def check_policy(name: str, field: str) -> None:
    """Raise `TowpathError` (invalid) if there is no policy of placement with this name."""
    # Here: policies need numpy, which takes a tenth of a second, and few meshes name one.
    from towpath.placement.jobs.policies.registry import POLICIES

    if name not in POLICIES:
        raise TowpathError.unknown("policy", name, POLICIES, field=field)


def _explained(error: ValidationError) -> TowpathError:
    """Return the first problem, with what is allowed there."""
    detail = TowpathError.of_validation(error).detail
    first = error.errors(include_url=False)[0]
    message, allowed = detail.message.removeprefix("Value error, "), detail.allowed
    if first["type"] == "extra_forbidden":
        allowed = _settings_at(first["loc"][:-1])
    elif first["type"] == "missing":
        message = "this setting is required"
    elif allowed is None and message.startswith("Input should be "):
        allowed = message.removeprefix("Input should be ")
    return TowpathError(detail.code, message, field=detail.field, value=detail.value, allowed=allowed)


def _settings_at(location: tuple[int | str, ...]) -> list[str]:
    """Return the names of the settings of the model at `location`."""
    model: type[BaseModel] = MeshSpec
    for part in location:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            candidates = (annotation, *get_args(annotation))
            model = next(
                (c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), SiteSpec
            )
    return sorted(model.model_fields)
