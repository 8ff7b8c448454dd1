"""The one table of reasons: what of PyFlink's API is not here as it is there, and why.

A key is a module of PyFlink without `pyflink.` (for all that is in it), a class, `Class.name`, or `*.name` for one of any class.
What the docstrings in flinkish say under "Differs from Flink:" need not be repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Kind(Enum):
    """What a reason stands for."""

    #: There, but not just as in PyFlink.
    DIFFERS = "differs"
    #: Makes no sense off the JVM.
    UNSUPPORTED = "unsupported"
    #: Will come.
    LATER = "not yet"
    #: Public by its name only: part of how PyFlink works inside, or of how it is tested.
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a name is not there as in PyFlink; text for users."""

    kind: Kind
    text: str


def _differs(text: str) -> Reason:
    return Reason(Kind.DIFFERS, text)


def _unsupported(text: str) -> Reason:
    return Reason(Kind.UNSUPPORTED, text)


def _later(text: str) -> Reason:
    return Reason(Kind.LATER, text)


def _internal(text: str) -> Reason:
    return Reason(Kind.INTERNAL, text)


def _java_connector(what: str, instead: str) -> Reason:
    return _unsupported(f"configures a Java connector whose jar is not part of PyFlink either; {instead} for {what}")


_NO_JAVA = _unsupported("returns a Java object")
_JAVA_CLASS = _unsupported("wraps a Java class")
_OWN_SINK = "write a `Sink` in Python (flinkish.datastream.connectors.base)"
_OWN_SOURCE_AND_SINK = "write a `Source` or `Sink` in Python (flinkish.datastream.connectors.base)"
_ARGUMENT_NAME = _differs("its argument is called `obj`, as in the base class")
_FILE_SINK_BUILDER = _differs("the builders are those of FileSink")

REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        # Java objects.
        "*.to_j_row_kind": _NO_JAVA,
        "*.get_java_function": _NO_JAVA,
        "*.get_java_memory_size": _NO_JAVA,
        "*.get_java_output_tag": _NO_JAVA,
        "*.get_java_slot_sharing_group": _NO_JAVA,
        "*.get_java_type_info": _NO_JAVA,
        "AssignerWithPeriodicWatermarksWrapper": _JAVA_CLASS,
        "CustomCheckpointStorage": _JAVA_CLASS,
        "CustomStateBackend": _JAVA_CLASS,
        "EmbeddedRocksDBStateBackend.set_options": _unsupported("names a Java class"),
        "InputFormat": _JAVA_CLASS,
        "JavaFunctionWrapper": _JAVA_CLASS,
        "Sink.__init__": _differs("an interface to be implemented in Python; there it wraps a Java object"),
        "Source.__init__": _differs("an interface to be implemented in Python; there it wraps a Java object"),
        # Connectors.
        "datastream.connectors.cassandra": _java_connector("Cassandra", _OWN_SINK),
        "datastream.connectors.elasticsearch": _java_connector("Elasticsearch", _OWN_SINK),
        "datastream.connectors.jdbc": _java_connector("databases", _OWN_SINK),
        "datastream.connectors.kinesis": _java_connector("Kinesis", _OWN_SOURCE_AND_SINK),
        "datastream.connectors.pulsar": _java_connector("Pulsar", _OWN_SOURCE_AND_SINK),
        "datastream.connectors.rabbitmq": _java_connector("RabbitMQ", _OWN_SOURCE_AND_SINK),
        "datastream.connectors.kafka": _later("Kafka comes together with Spark's native streaming sources"),
        "datastream.connectors.dynamic_kafka": _later("Kafka comes together with Spark's native streaming sources"),
        # Formats.
        "RowDataBulkWriterFactory": _internal("of the Table API"),
        # Files.
        "StreamingFileSink.BaseBuilder.with_rolling_policy": _differs("its argument is called `rolling_policy`, as in FileSink"),
        "StreamingFileSink.DefaultBulkFormatBuilder": _FILE_SINK_BUILDER,
        "StreamingFileSink.DefaultRowFormatBuilder": _FILE_SINK_BUILDER,
        # Streams.
        "KeyedStream.AccumulateType": _internal("how sum, min and max are told apart"),
        "WindowOperationDescriptor": _internal("what a window operator is built from"),
        # Types and configuration.
        "*.EPOCH_ORDINAL": _internal("a constant of a conversion"),
        "ConfigOptions.OptionBuilder": _differs("not nested here; made by ConfigOptions.key() only"),
        "ConfigOptions.TypedConfigOptionBuilder": _differs("not nested here; made by ConfigOptions.key() only"),
        "DateTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "DateTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "TimeTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "TimeTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "TimestampTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "TimestampTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "RestartStrategies.FailureRateRestartStrategyConfiguration.__init__": _differs(
            "its arguments are needed; there all are optional, for a Java object"
        ),
        "RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__": _differs(
            "its arguments are needed; there all are optional, for a Java object"
        ),
        # What PyFlink's own operators are made of.
        "AsyncFunctionDescriptor": _internal("what an asynchronous operator is built from"),
        "FunctionWrapper": _internal("turns callables into functions"),
        "InternalIterableAllWindowFunction": _internal("calls window functions"),
        "InternalIterableProcessAllWindowFunction": _internal("calls window functions"),
        "InternalIterableProcessWindowFunction": _internal("calls window functions"),
        "InternalIterableWindowFunction": _internal("calls window functions"),
        "InternalProcessAllWindowContext": _internal("calls window functions"),
        "InternalProcessWindowContext": _internal("calls window functions"),
        "InternalSingleValueAllWindowFunction": _internal("calls window functions"),
        "InternalSingleValueProcessAllWindowFunction": _internal("calls window functions"),
        "InternalSingleValueProcessWindowFunction": _internal("calls window functions"),
        "InternalSingleValueWindowFunction": _internal("calls window functions"),
        "InternalWindowFunction": _internal("calls window functions"),
        "Min": _internal("the reduce function of a trigger"),
        "ReduceFunctionWrapper": _internal("turns callables into functions"),
        "long_to_int_with_bit_mixing": _internal("a hash of windows"),
        "mod_inverse": _internal("a hash of windows"),
    }
)
