"""The program under construction: the table of transformations behind an environment."""

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

#: Fields that hold user functions. Sources and sinks are configurations; what they make in the tasks is their own.
_WITH_FUNCTIONS = ("operator", "key_selector", "first_key_selector", "second_key_selector", "partitioner", "watermarks")
#: Kinds that add no operator that a program could name or set: virtual ones, and caching, whose operator is flinkish's own.
WITHOUT_OPERATOR = (CacheTransformation, *VIRTUAL)


class ProgramBuilder:
    """Takes transformations and hands out what is to be executed.

    Executing does not remove what was executed: streams that the program still holds may be built upon again, and are then
    executed again from their sources on.
    """

    def __init__(self) -> None:
        self.transformations: dict[TransformationId, Transformation] = {}
        #: Operators added since the last execution: these, with all that they read, are what is executed next.
        self._pending: list[TransformationId] = []
        self._reminder = Reminder()

    def add(self, kind: type[Transformation], **fields: Any) -> TransformationId:
        """Make a transformation; returns its id.

        User functions are copied, as they are now: as in Flink an object that is given to two operators, or changed later, is
        another one in each. Raises NotSerializableError for one that cannot be.
        """
        functions = {name: fields[name] for name in _WITH_FUNCTIONS if fields.get(name) is not None}
        if functions:
            fields |= own_copy(functions, f"what {fields['name']!r} was given")
        identifier = TransformationId(len(self.transformations) + 1)
        self.transformations[identifier] = kind(id=identifier, made_at=calling_line(), **fields)
        # As in Flink a source alone is nothing to execute.
        if not issubclass(kind, (SourceTransformation, *WITHOUT_OPERATOR)):
            self._pending.append(identifier)
            self._reminder.add(fields["name"])
        return identifier

    def replace(self, identifier: TransformationId, **changes: Any) -> None:
        """Change fields of a transformation."""
        self.transformations[identifier] = replace(self.transformations[identifier], **changes)

    def clear_caches(self) -> None:
        """Remove the records of all cached streams."""
        for transformation in self.transformations.values():
            if isinstance(transformation, CacheTransformation):
                transformation.cache.clear()

    def fix_parallelism(self, parallelism: int) -> None:
        """Give the operators so far the parallelism that is the default now: a new default is for those to come, as in Flink."""
        for identifier, transformation in self.transformations.items():
            if transformation.parallelism is None and not isinstance(transformation, WITHOUT_OPERATOR):
                self.replace(identifier, parallelism=parallelism)

    def to_execute(self) -> Mapping[TransformationId, Transformation]:
        """Return the pending operators with all that they read, in the order in which they were made: to run or to show them.

        What was cached is read from there, by a source in the place of the cached stream; nothing before it is needed then.
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
        """Forget what was pending: it has been handed over."""
        self._pending.clear()

    def side_outputs(self, source: TransformationId) -> list[SideOutputTransformation]:
        """Return the side outputs that are read from a transformation."""
        return [
            transformation
            for transformation in self.transformations.values()
            if isinstance(transformation, SideOutputTransformation) and transformation.input == source
        ]

    def _resolved(self, transformation: Transformation) -> Transformation:
        """Return a source that reads the cache in the place of a cached stream, if there are records; all else as it is."""
        if not isinstance(transformation, CacheTransformation):
            return transformation
        origin = self.transformations[transformation.input]
        if isinstance(origin, SideOutputTransformation):
            origin = self.transformations[origin.input]
        # Each subtask writes what it computed, and reads it again.
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
