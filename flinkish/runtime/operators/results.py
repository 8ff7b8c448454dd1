"""Emits the results of user functions to the main output and side outputs."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from flinkish.common.records import ITERABLES, check_results
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.output_tag import OutputTag
from flinkish.runtime.channels import Emit
from flinkish.runtime.operators.base import Output, converting, discard
from flinkish.runtime.operators.function import FunctionOperator

EmitResults = Callable[[Any, int | None], None]


def tagged_emit(operator: FunctionOperator[Any]) -> Emit:
    """Return an `emit` for one result of an operator that also takes pairs (OutputTag, value).

    For operators whose side outputs are seldom read: they use it only where one is.
    """
    emit_results = results_emitter(operator.output, operator.emit, operator.side_types(), operator.node.name)
    return lambda result, timestamp: emit_results((result,), timestamp)


def results_emitter(output: Output, emit: Emit, tags: dict[str, TypeInformation | None], name: str) -> EmitResults:
    """Return a function that emits all results of a user function: an iterable of values and of (OutputTag, value) pairs.

    Differs from Flink: a pair whose tag has no reader is dropped instead of becoming a record of the main output.
    """
    side = {tag: converting(target, type_info) if (type_info := tags.get(tag)) else target for tag, target in output.side.items()}

    what = f"{name} must return None or an iterable of results"

    def emit_results(results: Any, timestamp: int | None) -> None:
        kind = results.__class__
        if kind is not GeneratorType and kind not in ITERABLES:
            check_results(results, what)
        for result in results:
            if result.__class__ is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                side.get(result[0].tag_id, discard)(result[1], timestamp)
            else:
                emit(result, timestamp)

    return emit_results
