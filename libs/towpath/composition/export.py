"""Pipelines as YAML that people can read, and that reads back as the same pipeline."""

from __future__ import annotations

from typing import Any

import yaml

from towpath.contracts.pipeline import PipelineSpec


def to_yaml(spec: PipelineSpec) -> str:
    """The pipeline in our format. Fields that are as they would be anyway are left out."""
    return yaml.dump(plain(spec), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def plain(spec: PipelineSpec) -> dict[str, Any]:
    """The pipeline as plain data without defaults; operators keep their kind, which tells them apart."""
    content = spec.model_dump(mode="json", exclude_defaults=True)
    for job, body in zip(spec.jobs, content["jobs"], strict=True):
        body["operator"] = {"kind": job.operator.kind, **body.get("operator", {})}
    return content


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice: an anchor says that things are the same, not only alike."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Texts with line breaks or anything that is not printed are quoted and escaped: PyYAML folds them
    otherwise, and reads some of them back as others."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
