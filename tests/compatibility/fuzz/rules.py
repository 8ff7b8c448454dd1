"""Where generated programs give something else than with PyFlink: by rules, not one by one.

A rule says which programs it is about, and how the two differ then: nothing else passes. What came here is recorded with the
answer, so that it cannot change unseen either.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.compatibility.fuzz.pipeline import Pipeline

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    why: str
    applies: Callable[[Pipeline], bool]
    #: What came here, and PyFlink's answer: do they differ as the rule says?
    differs: Callable[[Outcome, Outcome], bool]


def pyflink_fails(found: Outcome, answer: Outcome) -> bool:
    return "error" in answer and "results" in found


def alike(change: Callable[[str], str | None]) -> Callable[[Outcome, Outcome], bool]:
    """Return a comparison of results that are the same once both are changed; None stands for nothing."""

    def compare(found: Outcome, answer: Outcome) -> bool:
        if "error" in found or "error" in answer:
            return False
        here, there = ([change(text) for text in one["results"]] for one in (found, answer))
        return sorted(text for text in here if text is not None) == sorted(text for text in there if text is not None)

    return compare


def without_names(text: str) -> str:
    return re.sub(r"\b(?:[a-dknxyz]|f\d)=", "", text).replace("<Row", "Row").replace(")>", ")")


def without_contents_of_arrays(text: str) -> str:
    return re.sub(r"\[.*]|\[+[\w.]+;?@[0-9a-f]+", "[]", text)


def signed(text: re.Match[str]) -> str:
    return str([number - 256 if number > 127 else number for number in ast.literal_eval(text[0])])


def as_many(found: Outcome, answer: Outcome) -> bool:
    """Return whether there are as many results."""
    return len(found.get("results", [])) == len(answer.get("results", []))


def joins_sessions(pipeline: Pipeline) -> bool:
    """Return whether a record makes one session of two that were there."""
    gap = re.search(r"sessions(_of_records)?\((\d+)\)", words(pipeline))
    if gap is None:
        return False
    sessions: dict[str, list[tuple[int, int]]] = {}
    for record in pipeline.inputs[0].records:
        key, number = re.findall(r"'(\w+)', (-?\d+)", record)[0]
        start = int(number)
        end = start + (start % int(gap[2]) + 1 if gap[1] else int(gap[2]))
        mine = sessions.setdefault("" if "window_all" in words(pipeline) else key, [])
        touched = [one for one in mine if one[0] <= end and start <= one[1]]
        if len(touched) > 1:
            return True
        mine[:] = [one for one in mine if one not in touched]
        mine.append((min([start, *(one[0] for one in touched)]), max([end, *(one[1] for one in touched)])))
    return False


def words(pipeline: Pipeline) -> str:
    return " ".join(pipeline.steps)


def given_type(pipeline: Pipeline) -> str:
    return pipeline.inputs[0].type_info


RULES = [
    Rule(
        "PyFlink cannot make collections of lists, maps, bytes, pickled values, numbers of any length, or rows within others.",
        lambda pipeline: bool(re.search(r"LIST|MAP|BYTE|BIG_INT|PICKLED|\(.*ROW", given_type(pipeline))),
        pyflink_fails,
    ),
    Rule(
        "A Row that a function made gets the names of its type; in PyFlink not within a chain, nor in a cache of state.",
        lambda pipeline: "Row(" in pipeline.text,
        alike(without_names),
    ),
    Rule(
        "PyFlink cannot send whole numbers of more than 64 bits from one function to another.",
        lambda pipeline: "BIG_INT" in pipeline.text and "123456789012345678901234567890" in pipeline.text,
        pyflink_fails,
    ),
    Rule(
        "PyFlink takes only bytes for a list of bytes.",
        lambda pipeline: "LIST(Types.BYTE())" in words(pipeline),
        pyflink_fails,
    ),
    Rule(
        "A float that is declared as BIG_INT loses its fraction, as one declared as INT does; PyFlink makes it None.",
        lambda pipeline: pipeline.family == "mismatches" and "BIG_INT" in words(pipeline),
        lambda found, answer: "None" in str(answer.get("results")) and "results" in found,
    ),
    Rule(
        "PyFlink cannot collect rows in which a map is None.",
        lambda pipeline: "MAP(" in pipeline.text and "None" in " ".join(pipeline.inputs[0].records) and not pipeline.printed,
        pyflink_fails,
    ),
    Rule(
        "Flink refuses keys of array types, which have no hash of their contents in Java.",
        lambda pipeline: bool(re.search(r"key_by\(.*ARRAY\(", words(pipeline))),
        pyflink_fails,
    ),
    Rule(
        "PyFlink cannot print bytes without a type.",
        lambda pipeline: pipeline.printed and "b'" in pipeline.text,
        pyflink_fails,
    ),
    Rule(
        "Arrays of bytes are bytes wherever they are seen; PyFlink collects lists of signed numbers.",
        lambda pipeline: "ARRAY(Types.BYTE())" in pipeline.text and not pipeline.printed,
        alike(lambda text: re.sub(r"b'[^']*'", signed, text)),
    ),
    Rule(
        "A time of day keeps its milliseconds; PyFlink loses them when results are collected.",
        lambda pipeline: "SQL_TIME()" in pipeline.text and not pipeline.printed,
        alike(lambda text: re.sub(r"(time\(\d+, \d+, \d+), \d+", r"\1", text)),
    ),
    Rule(
        "Arrays that print as Java objects print their contents; in Java their addresses.",
        lambda pipeline: pipeline.printed and "ARRAY" in pipeline.text,
        alike(without_contents_of_arrays),
    ),
    Rule(
        "A record that joins two sessions joins what was reduced or aggregated in both; PyFlink loses that of the second one.",
        lambda pipeline: joins_sessions(pipeline) and bool(re.search("reduce|aggregate", words(pipeline))),
        as_many,
    ),
    Rule(
        "Timers that timers set or delete, and that are due as well, fire or do not fire at once, as in Flink; in PyFlink that "
        "counts from the next watermark on, and at the end of input not at all where bundles hold one record.",
        lambda pipeline: "Alarm({" in words(pipeline),
        alike(lambda text: text if "'record'" in text else None),
    ),
    Rule(
        "Timers that the timer of a trigger sets, and that are due as well, fire at once, as in Flink; in PyFlink with the next "
        "watermark, and not at all at the end of input.",
        lambda pipeline: "continuous(" in words(pipeline),
        lambda found, answer: set(answer.get("results", "?")) <= set(found.get("results", [])),
    ),
]


def rule_of(pipeline: Pipeline, found: Outcome, answer: Outcome) -> Rule | None:
    """Return the first rule that says why a program does not give what it gives with PyFlink."""
    return next((rule for rule in RULES if rule.applies(pipeline) and rule.differs(found, answer)), None)
