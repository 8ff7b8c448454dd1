"""Hand-made programs, without the fluent API."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.program.operators import KeyedCoProcessConfig, KeyedProcessConfig, MapConfig, OperatorConfig
from flinkish.program.program import Program
from flinkish.program.sources import Boundedness
from flinkish.program.transformations import (
    OneInputTransformation,
    Partitioner,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TransformationId,
    TwoInputTransformation,
    UnionTransformation,
)

#: The graph only hands types, functions, sources and sinks on; any object stands for them.
LONG = cast(Any, "LONG")
STRING = cast(Any, "STRING")


def by_value(value: object) -> object:
    return value


class Tag:
    def __init__(self, tag_id: str) -> None:
        self.tag_id = tag_id


_SWITCHES = {
    "auto_uids": options.AUTO_GENERATE_UIDS,
    "chaining": options.OPERATOR_CHAINING,
    "chaining_with_different_max_parallelism": options.OPERATOR_CHAINING_CHAIN_OPERATORS_WITH_DIFFERENT_MAX_PARALLELISM,
}


class ProgramBuilder:
    """Adds transformations and returns their ids; keyword arguments are fields of the transformation."""

    def __init__(self) -> None:
        self.transformations: dict[TransformationId, Transformation] = {}

    def source(self, name: str = "Numbers", **fields: Any) -> TransformationId:
        return self._add(
            SourceTransformation,
            name=name,
            source=SimpleNamespace(why_records="records", boundedness=Boundedness.BOUNDED),
            watermarks=None,
            **fields,
        )

    def map(self, read: TransformationId, name: str = "Map", **fields: Any) -> TransformationId:
        operator: OperatorConfig = fields.pop("operator", MapConfig(function=cast(Any, None)))
        return self._add(OneInputTransformation, name=name, input=read, operator=operator, **fields)

    def key_by(self, read: TransformationId) -> TransformationId:
        return self.partition(read, Partitioning.HASH, key_selector=by_value)

    def keyed_process(self, read: TransformationId, name: str = "KEYED PROCESS", **fields: Any) -> TransformationId:
        keyed = self.key_by(read)
        operator = KeyedProcessConfig(function=cast(Any, None))
        return self.map(keyed, name, operator=operator, key_selector=by_value, key_type=LONG, **fields)

    def keyed_co_process(self, first: TransformationId, second: TransformationId, **fields: Any) -> TransformationId:
        return self._add(
            TwoInputTransformation,
            name="Co-Process",
            first_input=self.key_by(first),
            second_input=self.key_by(second),
            operator=KeyedCoProcessConfig(function=cast(Any, None)),
            **{"first_key_selector": by_value, "second_key_selector": by_value, "key_type": LONG, **fields},
        )

    def partition(self, read: TransformationId, partitioning: Partitioning, **fields: Any) -> TransformationId:
        partitioner = Partitioner(partitioning=partitioning, **fields)
        return self._add(PartitionTransformation, name="Partition", input=read, partitioner=partitioner)

    def union(self, *reads: TransformationId) -> TransformationId:
        return self._add(UnionTransformation, name="Union", union_inputs=reads)

    def side_output(self, read: TransformationId, tag_id: str) -> TransformationId:
        return self._add(SideOutputTransformation, name="Side Output", input=read, tag=Tag(tag_id), output_type=STRING)

    def sink(self, read: TransformationId, name: str = "Print", **fields: Any) -> TransformationId:
        return self._add(SinkTransformation, name=name, input=read, sink=SimpleNamespace(why_records="records"), **fields)

    def change(self, transformation: TransformationId, **fields: Any) -> None:
        """Do what a setter such as `uid` does."""
        self.transformations[transformation] = replace(self.transformations[transformation], **fields)

    def build(self, *, job_name: str = "test", parallelism: int = 2, **switches: bool) -> Program:
        configuration = Configuration().set(options.DEFAULT_PARALLELISM, parallelism)
        for name, on in switches.items():
            configuration.set(_SWITCHES[name], on)
        return Program(job_name=job_name, transformations=self.transformations, configuration=configuration)

    def _add(self, kind: Any, **fields: Any) -> TransformationId:
        new = TransformationId(len(self.transformations) + 1)
        self.transformations[new] = kind(**{"id": new, "output_type": LONG, **fields})
        return new
