"""Write pipelines as YAML that people can read and that reads back as the same pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from towpath.contracts.job import JobSpec
from towpath.contracts.operators import plain_operator
from towpath.contracts.pipeline import PipelineSpec


def to_yaml(spec: PipelineSpec) -> str:
    """Return the pipeline in Towpath's format, without fields that have their default value."""
    return _yaml(plain(spec))


def jobs_to_yaml(jobs: Sequence[JobSpec]) -> str:
    """Return jobs as a file that `towpath deploy` reads, without fields that have their default value."""
    return _yaml(
        {"jobs": [_plain_job(job, job.model_dump(mode="json", exclude_defaults=True)) for job in jobs]}
    )


def plain(spec: PipelineSpec) -> dict[str, Any]:
    """Return the pipeline as plain data without defaults. Operators keep `kind`, which tells them apart."""
    content = spec.model_dump(mode="json", exclude_defaults=True)
    content["jobs"] = [_plain_job(job, body) for job, body in zip(spec.jobs, content["jobs"], strict=True)]
    return content


def _plain_job(job: JobSpec, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "operator": plain_operator(job.operator)}


def _yaml(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full: an anchor would say that they are the same, not only alike."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote and escape texts with line breaks or unprintable characters.

    Otherwise PyYAML folds them, and reads some of them back as other texts.
    """
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
