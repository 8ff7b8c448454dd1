"""The program under construction: the table of transformations of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flinkish.common.errors import InvalidProgramError
from flinkish.common.pickling import own_copy
from flinkish.common.tracebacks import calling_line
from flinkish.program.forgotten import Reminder
from flinkish.program.transformations import (
    VIRTUAL,
    CacheTransformation,
    SideOutputTransformation,
    SourceTransformation,
    Transformation,
    TransformationId,
)

#: Fields that hold user functions. Sources and sinks are not among them: they are configurations of the readers and writers.
_WITH_FUNCTIONS = ("operator", "key_selector", "first_key_selector", "second_key_selector", "partitioner", "watermarks")
#: Kinds whose operator a program can neither name nor configure: virtual ones, and caching, whose operator is internal.
WITHOUT_OPERATOR = (CacheTransformation, *VIRTUAL)


class ProgramBuilder:
    """Collects transformations and returns those to execute.

    Transformations are not removed when they were executed: a program may build on the same streams again, which are then
    executed again from their sources.
    """

    def __init__(self) -> None:
        self.transformations: dict[TransformationId, Transformation] = {}
        #: Operators added since the last execution; the next one executes them with all of their inputs.
        self._pending: list[TransformationId] = []
        self._reminder = Reminder()

    def add(self, kind: type[Transformation], **fields: Any) -> TransformationId:
        """Make a transformation and return its id.

        User functions are copied in their current state: as in Flink, operators that are given the same object do not share it,
        and later changes have no effect. Raises NotSerializableError for a function that cannot be pickled.
        """
        functions = {name: fields[name] for name in _WITH_FUNCTIONS if fields.get(name) is not None}
        if functions:
            fields |= own_copy(functions, f"what {fields['name']!r} was given")
        identifier = TransformationId(len(self.transformations) + 1)
        made_at = calling_line()
        self.transformations[identifier] = kind(id=identifier, made_at=made_at, **fields)
        # As in Flink, a source alone is not executed.
        if not issubclass(kind, (SourceTransformation, *WITHOUT_OPERATOR)):
            self._pending.append(identifier)
            self._reminder.add(fields["name"], made_at)
        return identifier

    def replace(self, identifier: TransformationId, **changes: Any) -> None:
        self.transformations[identifier] = replace(self.transformations[identifier], **changes)

    def clear_caches(self) -> None:
        """Remove the records of all cached streams."""
        for transformation in self.transformations.values():
            if isinstance(transformation, CacheTransformation):
                transformation.cache.clear()

    def fix_parallelism(self, parallelism: int) -> None:
        """Set the current default parallelism on the existing operators: as in Flink, a new default affects only later ones."""
        for identifier, transformation in self.transformations.items():
            if transformation.parallelism is None and not isinstance(transformation, WITHOUT_OPERATOR):
                self.replace(identifier, parallelism=parallelism)

    def to_execute(self) -> Mapping[TransformationId, Transformation]:
        """Return the pending operators with all of their inputs, in the order of their creation, to run or show them.

        A cached stream with records is replaced by a source that reads the cache, and its inputs are left out.
        Raises InvalidProgramError if there are no pending operators.
        """
        self._reminder.clear()
        if not self._pending:
            raise InvalidProgramError(
                "No operators defined in streaming topology. Cannot execute.",
                hint="add an operator or a sink, such as print(), after the last execute(); a source alone is not executed.",
            )
        needed: dict[TransformationId, Transformation] = {}
        waiting = list(self._pending)
        while waiting:
            identifier = waiting.pop()
            if identifier not in needed:
                transformation = self._resolved(self.transformations[identifier])
                needed[identifier] = transformation
                waiting.extend(transformation.inputs)
        return dict(sorted(needed.items()))

    def clear(self) -> None:
        """Forget the pending operators, which were passed on."""
        self._pending.clear()

    def side_outputs(self, source: TransformationId) -> list[SideOutputTransformation]:
        return [
            transformation
            for transformation in self.transformations.values()
            if isinstance(transformation, SideOutputTransformation) and transformation.input == source
        ]

    def _resolved(self, transformation: Transformation) -> Transformation:
        """Return a source that reads the cache for a cached stream with records; return other transformations unchanged."""
        if not isinstance(transformation, CacheTransformation):
            return transformation
        origin = self.transformations[transformation.input]
        if isinstance(origin, SideOutputTransformation):
            origin = self.transformations[origin.input]
        # Each subtask writes the records that it computes, and reads them again.
        alike: dict[str, Any] = {
            "parallelism": origin.parallelism,
            "max_parallelism": origin.max_parallelism,
            "can_be_parallel": origin.can_be_parallel,
            "uid": f"cache {transformation.id}",
            "made_at": transformation.made_at,
        }
        source = transformation.cache.source(transformation.output_type)
        if source is None:
            return replace(transformation, **alike)
        return SourceTransformation(
            id=transformation.id,
            name="CacheRead",
            output_type=transformation.output_type,
            source=source,
            watermarks=None,
            **alike,
        )
