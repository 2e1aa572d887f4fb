"""The catalogue of all that rules are made of: points, targets, faults and the words of conditions."""

from __future__ import annotations

from typing import Any

from pydantic.fields import FieldInfo

from towpath.contracts.export.field_types import type_of
from towpath.contracts.export.reference import member_documentation
from towpath.contracts.fault_commands import FaultCatalogue, FaultDescription, FaultParameter
from towpath.contracts.faults import DataPoint, TargetKind
from towpath.lab.faults.registry import Fault, faults
from towpath.lab.faults.validation import targets
from towpath.lab.faults.vocabulary import reference
from towpath.lab.faults.world import World


def catalogue(world: World) -> FaultCatalogue:
    """Return the catalogue, with the targets that there are in `world`."""
    meanings = member_documentation(DataPoint)
    return FaultCatalogue(
        points={point.value: meanings[point.name] for point in DataPoint},
        targets={kind.value: targets(kind, world) for kind in TargetKind},
        faults=[described(kind) for kind in faults().values()],
        functions=reference(),
    )


def described(kind: type[Fault]) -> FaultDescription:
    """Return the description of one fault, from its class."""
    schema = kind.parameters_type.model_json_schema()
    return FaultDescription(
        name=kind.name,
        meaning=kind.meaning(),
        applies_to=sorted(kind.applies_to),
        parameters=[
            _parameter(name, information, schema)
            for name, information in kind.parameters_type.model_fields.items()
        ],
    )


def _parameter(name: str, information: FieldInfo, schema: dict[str, Any]) -> FaultParameter:
    content = schema["properties"][information.alias or name]
    return FaultParameter(
        name=name,
        meaning=" ".join(content.get("description", "").split()),
        type=type_of(content, schema),
        default=content.get("default"),
        required=information.is_required(),
    )
