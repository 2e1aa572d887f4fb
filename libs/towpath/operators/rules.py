"""Check the rules of `clean`, and describe the first one that an event breaks."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import FieldRule


def broken_rule(fields: dict[str, FieldRule]) -> Column:
    """The first rule that an event breaks, as text with field, value and rule; null if it breaks none."""
    return F.coalesce(*(complaint for name, rule in fields.items() for complaint in _complaints(name, rule)))


def check_patterns(spark: SparkSession, fields: dict[str, FieldRule]) -> None:
    """Raise `TowpathError` if a pattern is no regular expression of Java."""
    for name, rule in fields.items():
        if rule.pattern is None:
            continue
        try:
            spark._jvm.java.util.regex.Pattern.compile(rule.pattern)  # pyright: ignore
        except Py4JJavaError as error:
            raise TowpathError(
                ErrorCode.INVALID,
                f"no regular expression: {error.java_exception.getDescription()}",
                field=f"operator.fields.{name}.pattern",
                value=rule.pattern,
                allowed="a Java regular expression",
            ) from error


def _complaints(name: str, rule: FieldRule) -> list[Column]:
    value = F.col(name)
    complaints = [F.lit(None).cast("string")]
    if rule.required:
        complaints.append(F.when(value.isNull(), F.lit(f"field '{name}': required, but missing or null")))
    if rule.minimum is not None:
        complaints.append(_broken(name, value < rule.minimum, f"is below the minimum {rule.minimum:g}"))
    if rule.maximum is not None:
        complaints.append(_broken(name, value > rule.maximum, f"is above the maximum {rule.maximum:g}"))
    if rule.pattern is not None:
        matches = value.rlike(rf"\A(?:{rule.pattern})\z")
        complaints.append(_broken(name, ~matches, f"does not match the pattern {rule.pattern}"))
    if rule.one_of is not None:
        one_of = value.isin(*rule.one_of)
        complaints.append(_broken(name, ~one_of, f"is not one of {', '.join(rule.one_of)}"))
    return complaints


def _broken(name: str, breaks: Column, rule: str) -> Column:
    shown = F.substring(F.col(name).cast("string"), 1, 100)
    return F.when(breaks, F.concat(F.lit(f"field '{name}': "), shown, F.lit(f" {rule}")))
