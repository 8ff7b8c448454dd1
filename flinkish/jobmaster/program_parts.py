"""Finds the sources and sinks of a job graph, with the properties that their coordinators on the driver need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from flinkish.checkpoint.manifest import OperatorShape
from flinkish.common.ids import OperatorUid
from flinkish.common.watermark_strategy import WatermarkAlignment
from flinkish.graph.job_graph import JobGraph, JobVertex
from flinkish.graph.stream_graph import StreamNode
from flinkish.program.operators import SinkConfig, SinkWriterConfig, SourceConfig
from flinkish.program.sinks import Sink
from flinkish.program.sources import AnySource
from flinkish.program.state_kinds import state_kind
from flinkish.udf.checkpoint import CheckpointListener


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceNode:
    """A source operator; it is always the head of its vertex."""

    uid: OperatorUid
    name: str
    parallelism: int
    source: AnySource
    #: The watermark alignment group of the source, if it has one.
    alignment: WatermarkAlignment | None = None

    @property
    def label(self) -> str:
        return f"source {self.name!r} (uid {self.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkNode:
    """A sink operator."""

    uid: OperatorUid
    name: str
    sink: Sink[Any, Any]

    @property
    def label(self) -> str:
        return f"sink {self.name!r} (uid {self.uid})"


def operators(graph: JobGraph) -> Iterator[tuple[JobVertex, StreamNode]]:
    """Yield all operators with their vertices, in topological order."""
    for vertex in graph.vertices.values():
        for node in vertex.operators:
            yield vertex, node


def operator_shape(vertex: JobVertex, node: StreamNode) -> OperatorShape:
    """Return an operator as checkpoints record it."""
    return OperatorShape(
        uid=node.uid,
        name=node.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        kind=state_kind(node.operator),
    )


def sources(graph: JobGraph) -> tuple[SourceNode, ...]:
    return tuple(
        SourceNode(
            uid=node.uid,
            name=node.name,
            parallelism=vertex.parallelism,
            source=node.operator.source,
            alignment=None if node.operator.watermarks is None else node.operator.watermarks.alignment,
        )
        for vertex, node in operators(graph)
        if isinstance(node.operator, SourceConfig)
    )


def sinks(graph: JobGraph) -> tuple[SinkNode, ...]:
    """Return the sinks of a job.

    The first stage of a sink is included: a checkpoint from a time when the sink had a single stage has committables under its
    uid.
    """
    return tuple(
        SinkNode(uid=node.uid, name=node.name, sink=node.operator.sink)
        for _, node in operators(graph)
        if isinstance(node.operator, SinkConfig | SinkWriterConfig)
    )


def listens_to_checkpoints(graph: JobGraph) -> bool:
    """Return whether a user function of the job is a CheckpointListener."""
    for _, node in operators(graph):
        held = [getattr(node.operator, field.name) for field in fields(node.operator)]
        # A sink may in turn hold a user function.
        held += [getattr(sink, "function", None) for sink in held if isinstance(sink, Sink)]
        if any(isinstance(part, CheckpointListener) for part in held):
            return True
    return False
