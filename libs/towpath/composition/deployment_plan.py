"""Import deployment plans, as the thesis on migrating stream operators describes them, as pipelines.

A plan is a list of operations. Each has a task type, `deploy`, `update` or `uninstall`. Four relations say
what it concerns: an operation *runs on* a resource, *executes* an operator, *reads from* data streams and
*writes to* one. This notation is Towpath's own, for jobs at sites. `towpath.plans` reads the thesis's
template, and plans for devices. In JSON:

    {
      "plan": "delays",
      "operations": [
        {
          "task": "deploy",
          "operation": "late-jfk",
          "runs_on": "jfk",
          "executes": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
          "reads_from": [{"site": "jfk", "topic": "departures/clean"}],
          "writes_to": {"site": "jfk", "topic": "departures/late"}
        },
        {"task": "update", "operation": "hourly-jfk", "runs_on": "cloud"},
        {"task": "uninstall", "operation": "pace-jfk"}
      ]
    }

- `plan`: the pipeline's name, unless the caller gives another;
- `deploy` adds a job and needs all four relations. `update` replaces the relations it names and leaves the
  rest of the job as it is. `uninstall` removes the job and names no relation;
- `runs_on`, and `site` in the other relations: the name of a site, or `host:port` of one of its servers;
- `executes`: an operator as in pipelines, or user code as `"package.module:function"`;
- `reads_from`: one stream or a list of them. `start` may be added, as in a job's inputs;
- `writes_to`: `site` may be left out and is then the job's first site. `dead_letter` may be added.

Operations are executed in their order. No two may concern the same job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ValidationError

from towpath.composition.addresses import AddressBook
from towpath.composition.texts import load
from towpath.composition.violations import all_at_once, violations
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import JobName, Model, is_name
from towpath.contracts.pipeline import PipelineJob, PipelineName, PipelineSpec
from towpath.contracts.site import SiteStatus


class ImportedOperation(Model):
    """One operation of a plan."""

    task: Literal["deploy", "update", "uninstall"]
    operation: JobName
    runs_on: str | None = None
    executes: dict[str, Any] | str | None = None
    reads_from: list[dict[str, Any]] | dict[str, Any] | None = None
    writes_to: dict[str, Any] | None = None


class ImportedPlan(Model):
    """A plan: its name and its operations."""

    plan: PipelineName | None = None
    operations: list[ImportedOperation]


RELATIONS = {"runs_on": "site", "executes": "operator", "reads_from": "inputs", "writes_to": "output"}
"""Relation of an operation → field of a job."""


def plan_name(text: str) -> str | None:
    """Return the name that a plan gives itself. Raises `TowpathError` (invalid) when the text is not JSON."""
    content = load(text, "application/json")
    name = content.get("plan") if isinstance(content, dict) else None
    return name if isinstance(name, str) else None


def import_plan(
    text: str, current: PipelineSpec | None, sites: Sequence[SiteStatus], *, name: str | None = None
) -> PipelineSpec:
    """Return the pipeline that results when the plan's operations are applied to `current`, or to nothing.

    It is called `name`, else as `current`, else as the plan says. Without `sites`, it accepts names as sites
    and refuses addresses.

    Raises `TowpathError` with all errors in `detail.errors`, named by the plan's own fields.
    """
    content = load(text, "application/json")
    try:
        plan = ImportedPlan.model_validate(content)
    except ValidationError as error:
        raise all_at_once(violations(error, content), "the plan") from error
    called = name or (current.name if current else None) or plan.plan
    importing = _Importing(current, AddressBook(sites))
    for position, operation in enumerate(plan.operations):
        importing.carry_out(position, operation)
    if called is None or not is_name(called):
        importing.refuse("plan", "the pipeline has no name", called, "a name such as `delays`")
    if importing.errors:
        raise all_at_once(importing.errors, "the plan")
    kept = current.model_dump(exclude={"name", "jobs"}) if current else {}
    return PipelineSpec(**kept, name=str(called), jobs=[*importing.jobs.values()])


class _Importing:
    """Applies operations to descriptions and collects the errors."""

    def __init__(self, current: PipelineSpec | None, sites: AddressBook) -> None:
        self.jobs: dict[str, PipelineJob] = {job.name: job for job in (current.jobs if current else [])}
        self.errors: list[ErrorDetail] = []
        self._sites = sites
        self._concerned: set[str] = set()

    def carry_out(self, position: int, operation: ImportedOperation) -> None:
        """Add, replace or remove the operation's job."""
        place, name = f"operations[{position}]", operation.operation
        given = [relation for relation in RELATIONS if getattr(operation, relation) is not None]
        if name in self._concerned:
            self.refuse(
                f"{place}.operation",
                "another operation of the plan concerns this job",
                name,
                "one operation per job",
            )
        elif operation.task == "deploy" and name in self.jobs:
            self.refuse(
                f"{place}.task", f"the job {name} exists already", operation.task, ["update", "uninstall"]
            )
        elif operation.task != "deploy" and name not in self.jobs:
            self.refuse(f"{place}.operation", "no such job", name, sorted(self.jobs))
        elif operation.task == "deploy" and len(given) < len(RELATIONS):
            for relation in (r for r in RELATIONS if r not in given):
                self.refuse(
                    f"{place}.{relation}", "`deploy` needs this relation: it needs all four", None, None
                )
        elif operation.task == "uninstall" and given:
            self.refuse(f"{place}.{given[0]}", "`uninstall` takes no relations", None, "leave it out")
        elif operation.task == "uninstall":
            del self.jobs[name]
        else:
            self._replace(place, operation, given)
        self._concerned.add(name)

    def refuse(self, field: str, message: str, value: Any, allowed: str | list[str] | None) -> None:
        """Record one error."""
        self.errors.append(
            ErrorDetail(code=ErrorCode.INVALID, message=message, field=field, value=value, allowed=allowed)
        )

    def _replace(self, place: str, operation: ImportedOperation, given: list[str]) -> None:
        old = self.jobs.get(operation.operation)
        body: dict[str, Any] = {"name": operation.operation}
        if old is not None:
            body = old.model_dump(mode="json")
            # Results stay where they are when the job moves, unless the plan says otherwise.
            body["output"]["site"] = old.output_site
        replaced = {RELATIONS[relation]: self._field(place, operation, relation) for relation in given}
        if not any(error.field and error.field.startswith(f"{place}.") for error in self.errors):
            self._validate(place, {**body, **replaced})

    def _validate(self, place: str, body: dict[str, Any]) -> None:
        relations = {field: relation for relation, field in RELATIONS.items()}
        try:
            self.jobs[body["name"]] = PipelineJob.model_validate(body)
        except ValidationError as error:
            for found in violations(error, body):
                field = found.field or ""
                start = next((f for f in relations if field.startswith(f)), None)
                renamed = f"{place}.{relations[start]}{field.removeprefix(start)}" if start else place
                self.errors.append(found.model_copy(update={"field": renamed}))

    def _field(self, place: str, operation: ImportedOperation, relation: str) -> Any:
        value = getattr(operation, relation)
        if relation == "runs_on":
            return self._site(value, f"{place}.runs_on")
        if relation == "executes":
            return {"kind": "python", "entry": value} if isinstance(value, str) else value
        if relation == "reads_from":
            streams = value if isinstance(value, list) else [value]
            return [self._located(s, f"{place}.{relation}[{n}]") for n, s in enumerate(streams)]
        return self._located(value, f"{place}.{relation}")

    def _located(self, stream: dict[str, Any], place: str) -> dict[str, Any]:
        site = stream.get("site")
        return {**stream, "site": self._site(site, f"{place}.site")} if isinstance(site, str) else stream

    def _site(self, address: str, place: str) -> str | None:
        try:
            return self._sites.site(address, place)
        except TowpathError as error:
            self.errors.append(error.detail)
            return None
