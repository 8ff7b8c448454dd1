"""The piece of a program that a harness runs between its own inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.common.configuration import Configuration
from flinkish.common.conversion import lenient_converter
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.data_stream import DataStream, DataStreamSink
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.output_tag import OutputTag
from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import ExecutionPlan, plan
from flinkish.graph.job_graph import EdgeId, VertexId
from flinkish.graph.stream_graph_generator import generate
from flinkish.jobmaster.setup import effective_configuration
from flinkish.runtime.channels import EdgeWriter
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.testing.steps import Emit, EmitWatermark, End, InputStep, MarkActive, MarkIdle


class Piece:
    """The plan of a piece of a program, with the edges that lead into it and out of it."""

    def __init__(
        self,
        build: Callable[..., DataStream],
        input_types: Sequence[TypeInformation | None],
        tags: Sequence[OutputTag],
        parallelism: int,
        max_parallelism: int,
        settings: Mapping[str, Any],
    ) -> None:
        texts = {"execution.engine": "local", **{key: str(value) for key, value in settings.items()}}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(texts))
        env.set_parallelism(parallelism)
        env.set_max_parallelism(max_parallelism)
        inputs = [env.from_collection([], type_info or Types.PICKLED_BYTE_ARRAY()) for type_info in input_types]
        # Not FORWARD, because the piece must begin a task that gets its input from channels.
        result = build(*(stream.rebalance() for stream in inputs))
        if not isinstance(result, DataStream) or isinstance(result, KeyedStream):
            raise InvalidArgumentError(
                f"the function that builds the part under test must return a DataStream made by an operator; got {result!r}."
            )
        sinks = {None: _sink(result)} | {tag.tag_id: _sink(result.get_side_output(tag)) for tag in tags}
        program = env._program("harness")
        self.configuration = effective_configuration(program.configuration)
        self.plan: ExecutionPlan = plan(build_job_graph(generate(program)))
        graph = self.plan.job_graph
        heads = [VertexId(stream._id) for stream in inputs]
        if set(self.plan.levels[0]) != set(heads):
            raise InvalidProgramError(
                "the part under test must read all of its inputs, and nothing else",
                hint="no sources of its own, and no forward() on an input.",
            )
        self.input_edges = [graph.outputs(head) for head in heads]
        vertices = {VertexId(sink._id): name for name, sink in sinks.items()}
        #: Edges that leave the piece; the tag's id, None for the main output.
        self.output_edges: dict[EdgeId, str | None] = {
            edge.id: name for vertex, name in vertices.items() for edge in graph.inputs(vertex)
        }
        own = {vertex_id: vertex for vertex_id, vertex in graph.vertices.items() if vertex_id not in (*vertices, *heads)}
        self.levels = [level for level, members in enumerate(self.plan.levels) if own.keys() & set(members)]
        self.parallelism = {node.uid: vertex.parallelism for vertex in own.values() for node in vertex.operators}
        self.subtasks = {(vertex_id, subtask) for vertex_id, vertex in own.items() for subtask in range(vertex.parallelism)}


def _sink(stream: DataStream) -> DataStreamSink:
    return stream.rebalance().sink_to(DiscardingSink()).set_parallelism(1)


class Input:
    """One input: writes elements from the test to the channels that lead into the piece."""

    def __init__(self, writers: list[EdgeWriter], type_info: TypeInformation | None) -> None:
        self.writers = writers
        self.ended = False
        self._convert = None if type_info is None else lenient_converter(type_info)

    def do(self, step: InputStep) -> None:
        if self.ended:
            raise InvalidArgumentError("the input has ended; nothing can be pushed into it any more")
        if isinstance(step, Emit) and self._convert is not None:
            step = replace(step, value=self._convert(step.value))
        for writer in self.writers:
            match step:
                case Emit(value=value, timestamp=timestamp):
                    writer.emit(value, timestamp)
                case EmitWatermark(timestamp=watermark):
                    writer.watermark(watermark)
                case MarkIdle() | MarkActive():
                    writer.status(isinstance(step, MarkIdle))
                case End():
                    writer.watermark(MAX_WATERMARK)
                    writer.end_of_input()
        self.ended = isinstance(step, End)
