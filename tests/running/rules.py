"""The file with a scope's fault rules, written as a keeper writes it, and the reports that come back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.contracts.faults import LoadedRule, Rule, RuleCount, RuleReport, RuleSet
from towpath.contracts.message import now
from towpath.contracts.metrics import Metric

LEASE_S = 120.0


@dataclass
class Rules:
    """The rules of one scope."""

    file: Path
    revision: int = 0

    def load(self, *rules: dict[str, Any], lease_s: float = LEASE_S) -> None:
        """Write these rules, and no others, from now on."""
        self.revision += 1
        loaded = [
            LoadedRule(
                rule=Rule.model_validate({"name": f"rule-{place}", **rule}),
                version=self.revision,
                loaded_at=now(),
            )
            for place, rule in enumerate(rules)
        ]
        content = RuleSet(
            scope=self.file.stem, revision=self.revision, expires_at=time.time() + lease_s, rules=loaded
        )
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.write_text(content.model_dump_json())
        part.replace(self.file)

    def unload(self) -> None:
        """Take all rules away."""
        self.file.unlink(missing_ok=True)

    def _reports(self) -> list[RuleReport]:
        """Return the reports, of whole lines only: a process may still be writing one."""
        files = (self.file.parent / "reports" / self.file.stem).glob("*.jsonl")
        texts = [file.read_text() for file in files]
        return [
            RuleReport.model_validate_json(line)
            for text in texts
            for line in text[: text.rfind("\n") + 1].splitlines()
        ]

    def metrics(self, name: str) -> list[Metric]:
        """Return all measurements of this name, of all processes."""
        return [r.metric for r in self._reports() if r.metric is not None and r.metric.name == name]

    def counts(self) -> list[RuleCount]:
        """Return all counts of the rules loaded last."""
        return [r.count for r in self._reports() if r.count is not None and r.count.version == self.revision]


def rule(event: dict[str, Any], fault: str, condition: str = "true", **more: Any) -> dict[str, Any]:
    """Return a rule with one action; `parameters` are the fault's."""
    action = {"fault": fault, "parameters": more.pop("parameters", {})}
    return {"event": event, "condition": condition, "actions": [action], **more}
