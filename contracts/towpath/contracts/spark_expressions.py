"""The Spark SQL expressions that users may write: functions of one event that always give the same value.

`CALLABLE` is an allow-list. Engines hold what Spark's own parser reads to it, which decides
(`towpath.operators.parsed_expressions`). What is plainly wrong is refused here, without Spark, before a job
is deployed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from towpath.contracts.errors import closest

ALLOWED = (
    "fields, literals, operators, and Spark's functions of one event, such as upper, coalesce or date_trunc"
)

_GROUPS = {
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos
        cosh cot csc degrees e exp expm1 factorial floor getbit greatest hex hypot least ln log log10 log1p
        log2 mod negative pi pmod positive pow power radians rint round sec shiftleft shiftright
        shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply
        try_subtract unhex width_bucket
    """,
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr concat_ws contains crc32 decode
        elt encode endswith find_in_set format_number format_string from_base32 hash initcap instr
        is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad ltrim
        luhn_check make_valid_utf8 mask md5 octet_length overlay parse_url position printf quote
        regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat
        replace right rpad rtrim sentences sha sha1 sha2 soundex space split split_part startswith substr
        substring substring_index to_base32 to_binary to_char to_number to_varchar translate trim
        try_parse_url try_to_binary try_to_number try_url_decode try_validate_utf8 ucase unbase64 upper
        url_decode url_encode xxhash64
    """,
    "times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract
        from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time
        make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
        months_between next_day quarter second time_bucket time_diff time_from_micros time_from_millis
        time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros
        timestamp_millis timestamp_nanos timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date
        unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear year
    """,
    "conditions and types": """
        between bigint binary boolean cast coalesce date decimal double equal_null float if ifnull ilike int
        isnan isnotnull isnull like nanvl nullif nullifzero nvl nvl2 regexp regexp_like rlike smallint
        string time timestamp tinyint typeof when zeroifnull
    """,
    "lists, maps and structures": """
        aggregate array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality concat
        element_at exists filter flatten forall get map map_concat map_contains_key map_entries map_filter
        map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct reduce reverse
        sequence size slice sort_array str_to_map struct transform transform_keys transform_values
        try_element_at zip_with
    """,
    "JSON and CSV": """
        from_csv from_json get_json_object is_valid_variant is_variant_null json_array_length
        json_object_keys parse_json schema_of_csv schema_of_json to_csv to_json try_parse_json
        try_variant_get variant_get
    """,
}

CALLABLE = frozenset(" ".join(_GROUPS.values()).split())
"""Spark's built-in functions that depend on their arguments alone, and read one event."""

_CHANGING = """
    aes_encrypt curdate current_date current_time current_timestamp current_timezone localtime
    localtimestamp monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id
    uniform uuid
"""

CHANGING = frozenset(_CHANGING.split())
"""Functions that give another value each time."""

NEEDS_ARGUMENT = frozenset({"unix_timestamp"})
"""Functions that read the clock when they have no argument."""

_KEYWORDS = """
    all and any as both by case character dec distinct div else escape for from in interval is leading not
    numeric or placing some then timestamp_ltz timestamp_ntz timestampadd timestampdiff trailing try_cast
    varchar when
"""
"""Words of SQL that a parenthesis may follow, and that are no functions."""

_BEFORE_PARENTHESIS = frozenset(_KEYWORDS.split())
_NO_ARGUMENTS = CHANGING | {"current_user", "session_user", "user", "current_catalog", "current_database"}
"""Functions that Spark also calls without parentheses, if no field has the name."""

_OTHER_ROWS = frozenset({"select", "table", "values", "with", "using", "over"})
"""Words that begin a subquery, a script or a window."""

_MOMENT = re.compile(r"""r?['"]\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*['"]""", re.I)
_TIMED = re.compile(r"""\b(date|time\w*|(try_)?to_\w+)\s*[('"]|\bcast\s*\(|::""", re.I)
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<comment>--|/\*)
    |(?P<word>\w+)
    |(?P<sign>[-+*/%&|^~<>=!.,:?()\[\]])""",
    re.X | re.S,
)


def function_refusal(name: str, arguments: int) -> str | None:
    """Return why a function may not be called with so many arguments; None if it may."""
    lower = name.lower()
    if lower in CHANGING or (lower in NEEDS_ARGUMENT and not arguments):
        return (
            f"{name!r} gives another value each time: an event that is computed again after a move or a "
            "failure would have two results"
        )
    if lower in CALLABLE:
        return None
    like = closest(lower, CALLABLE)
    return f"function {name!r} may not be used in an expression" + (
        f"; did you mean {like!r}?" if like else ""
    )


@lru_cache(maxsize=512)
def refusal(text: str, fields: frozenset[str] = frozenset()) -> str | None:
    """Return why an expression over these fields is refused without asking Spark; None if it is not."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return f"{text[at : at + 10]!r} cannot be read as part of an expression"
        if token.lastgroup == "comment":
            return "an expression has no comments"
        if token.lastgroup != "space":
            tokens.append((token.lastgroup or "", token[0]))
        at = token.end()
    if "${" in text:
        return "'${' may not be used in an expression"
    if _TIMED.search(text) and any(kind == "text" and _MOMENT.fullmatch(said) for kind, said in tokens):
        return "a time such as 'now' or 'today' is another one each time: events would have two results"
    lower = frozenset(name.lower() for name in fields)
    return next(_refusals([("sign", "("), *tokens, ("sign", ")"), ("sign", ")")], lower), None)


def _refusals(tokens: list[tuple[str, str]], fields: Collection[str]) -> Iterator[str]:
    for before, (kind, said), after, then in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if (said, after[1]) in ((")", "("), ("]", "(")):
            yield "only a function's name stands before '('"
        if kind not in ("word", "quoted"):
            continue
        name = said.strip("`").replace("``", "`")
        lower, is_call = name.lower(), after == ("sign", "(")
        if is_call and before[1] == ".":
            yield f"function {name!r} may only be named without a catalogue or a schema"
        if kind == "word" and lower in _BEFORE_PARENTHESIS:
            is_call = False
            if lower == "from" and before[1] == "(":
                yield "an expression has no subquery"
        if is_call and (why := function_refusal(name, then[1] != ")")):
            yield why
        elif not is_call and kind == "word" and before[1] != "." and lower not in fields:
            if lower in _OTHER_ROWS:
                yield f"{said!r} may not be used in an expression: it reads one event, and no other rows"
            if lower in _NO_ARGUMENTS:
                yield function_refusal(name, 0) or ""


def _checked(text: str, info: ValidationInfo) -> str:
    why = refusal(text, frozenset(info.data.get("fields", ())))
    if why is not None:
        raise PydanticCustomError("expression", "{why}", {"why": why, "expected": ALLOWED})
    return text


Expression = Annotated[str, AfterValidator(_checked)]
"""A Spark SQL expression over the model's `fields`, which stand before it."""
