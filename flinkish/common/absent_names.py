"""The one table of PyFlink names that flinkish does not have; `absent` refuses them.

Keys are dotted paths below `pyflink`; a module's reason holds for all names in it. Absent members of classes are declared in the
classes themselves, as `AbsentMember`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flinkish.common.absent import Absence


def _unsupported(reason: str, see: str) -> Absence:
    return Absence("unsupported", reason, see)


def _internal(reason: str, see: str) -> Absence:
    return Absence("internal", reason, see)


def _gone(reason: str, see: str) -> Absence:
    return Absence("gone", reason, see)


JAVA_OBJECT: Final = _unsupported(
    "there is no Java object behind it, as flinkish keeps programs in Python",
    "use the methods of the Python object, and configuration keys for settings that have none",
)
_GATEWAY = _unsupported(
    "there is no gateway to Flink's JVM, as flinkish keeps programs in Python",
    "use the Python API, and configuration keys for settings that have no method",
)
TABLE_API: Final = _unsupported(
    "there is no Table API",
    "write the query with the DataStream API; for SQL on results, use a DeltaSink and read its table with Spark (flinkish sql)",
)
COLUMN_TYPE: Final = _unsupported("formats of files have no such columns", "write the value as a BIGINT, a STRING or an ARRAY")
_DATA_SET = _gone("there is no DataSet API", "use DataStreams with RuntimeExecutionMode.BATCH")
_ML = _unsupported("Flink ML builds on the Table API", "call a model in an AsyncFunction or a ProcessFunction")
_TEST_TOOLS = _internal("PyFlink tests itself with it", "use flinkish.testing")
INTERNAL: Final = _internal("it is a part of how PyFlink works inside", "use the public classes and functions")
_MAIN_PARTS = _internal("it is a part of how PyFlink works inside", "use the names of flinkish.common and flinkish.datastream")


def _java_connector(service: str, client: str) -> Absence:
    """Refuse a connector; `client` is the service's Python package."""
    return _unsupported(
        f"it configures Flink's {service} connector, which is Java code",
        f"write a Source or Sink in Python with the package {client}; docs/pages/connectors/recipes.md shows how",
    )


_DYNAMIC_KAFKA = _unsupported(
    "it configures Flink's dynamic Kafka connector, which is Java code",
    "use KafkaSource of flinkish.datastream.connectors.kafka: set_topic_pattern() finds topics that are created later, and "
    "KafkaRecordDeserializationSchema is there",
)
_PULSAR = _java_connector("Pulsar", "pulsar-client")
_RABBITMQ = _java_connector("RabbitMQ", "pika")

#: Names of Spark's DataFrames that their users try on a stream.
SPARK_WRITE: Final = _unsupported(
    "a stream is no DataFrame",
    "call sink_to(DataFrameSink(write)), whose write(df, checkpoint_id) gets each checkpoint's rows as a DataFrame",
)
SPARK_FRAME: Final = _unsupported(
    "a stream is no DataFrame", "call collect_as_data_frame(spark) on a stream that ends, or sink_to(DataFrameSink(write))"
)
SPARK_READ: Final = _unsupported("an environment is no SparkSession", "call from_data_frame(spark.readStream.format(...).load())")


_JAVA_NAME: Final = "flinkish has PyFlink's names"
_NO_FRAME: Final = "a stream is no DataFrame"
_NO_KEYS: Final = "the stream has no keys"
_FIELDS: Final = _unsupported(_NO_FRAME, "call map() with a function of the record, lambda row: ...")
_KEYS_FIRST: Final = _unsupported(_NO_KEYS, "call key_by(lambda record: ...) first")
_STARTS: Final = _unsupported(
    "a program has one start for all its streams", "call execute() of the environment after the last sink"
)

#: Names that users of Flink's Java API and of Spark try on a stream, or that only streams with keys have.
NAMES_ON_STREAMS: Final[Mapping[str, Absence]] = MappingProxyType(
    {
        "addSink": _unsupported(_JAVA_NAME, "call add_sink(sink_function), or sink_to(sink)"),
        "assignTimestampsAndWatermarks": _unsupported(_JAVA_NAME, "call assign_timestamps_and_watermarks(strategy)"),
        **dict.fromkeys(("flatMap", "flatmap"), _unsupported(_JAVA_NAME, "call flat_map(function)")),
        "keyBy": _unsupported(_JAVA_NAME, "call key_by(lambda record: ...)"),
        "sinkTo": _unsupported(_JAVA_NAME, "call sink_to(sink)"),
        "awaitTermination": _STARTS,
        "collect": _unsupported(
            _NO_FRAME, "call execute_and_collect(), which runs the program and returns this stream's records"
        ),
        **dict.fromkeys(
            ("groupBy", "groupby"),
            _unsupported(_NO_FRAME, "call key_by(lambda row: row.field), then reduce(), sum(), process() or window()"),
        ),
        **dict.fromkeys(
            ("mapInPandas", "map_in_pandas"),
            _unsupported(_NO_FRAME, 'call map_batches(function, output_type, batch_format="pandas")'),
        ),
        "show": _unsupported(_NO_FRAME, "call print(), then execute() of the environment"),
        "start": _STARTS,
        "trigger": _unsupported(
            "only windows have triggers, and micro-batches follow one another without an interval",
            "call key_by(...).window(...).trigger(...); how often results are committed is set by env.enable_checkpointing(ms)",
        ),
        "where": _unsupported(_NO_FRAME, "call filter(lambda row: ...); a join is stream.join(other).where(...)"),
        "withColumn": _FIELDS,
        "withWatermark": _unsupported(_NO_FRAME, "call assign_timestamps_and_watermarks(WatermarkStrategy...)"),
        **dict.fromkeys(("count_window", "interval_join", "max", "max_by", "min", "min_by", "reduce", "sum"), _KEYS_FIRST),
        "window": _unsupported(
            _NO_KEYS, "call key_by(lambda record: ...).window(...), or window_all(...) for windows over all records"
        ),
    }
)
_CEP: Final = _unsupported(
    "Flink's library of patterns is Java code", "write the pattern as a KeyedProcessFunction with state and timers"
)
_RICH: Final = (
    *("AggregateFunction", "AsyncFunction", "CoFlatMapFunction", "CoMapFunction", "FilterFunction", "FlatMapFunction"),
    *("Function", "MapFunction", "ReduceFunction", "SinkFunction", "SourceFunction", "WindowFunction"),
)
TIME_CHARACTERISTIC: Final = _gone(
    "streams know event time and processing time at once", "assign a WatermarkStrategy for event time; no setting is needed"
)
_MEMORY_BACKEND = _gone("it was split into backend and storage", "use HashMapStateBackend and JobManagerCheckpointStorage")
_FS_BACKEND = _gone("it was split into backend and storage", "use HashMapStateBackend and FileSystemCheckpointStorage(folder)")
_ROCKSDB_BACKEND = _gone(
    "it was split into backend and storage", "use EmbeddedRocksDBStateBackend and FileSystemCheckpointStorage(folder)"
)
EXTERNALIZED_CLEANUP: Final = _gone(
    "it has another name", "use ExternalizedCheckpointRetention and CheckpointConfig.set_externalized_checkpoint_retention()"
)
EXECUTION_MODE: Final = _gone(
    "it chose how the DataSet API exchanged data", "use StreamExecutionEnvironment.set_runtime_mode(RuntimeExecutionMode...)"
)
SERIALIZERS: Final = _gone("it registers a Java class with a serializer", "leave it out: records are typed by Types, or pickled")
RESTART_STRATEGY: Final = _gone(
    "it moved to the configuration", "set restart-strategy.type and the keys below it, or env.set_restart_strategy()"
)

INPUT_DEPENDENCY: Final = _gone("it chose when a batch task was scheduled", "leave it out: Spark schedules the tasks")

CHECKPOINT_STORAGE: Final = _gone("it moved to the configuration", "read execution.checkpointing.dir from the Configuration")
JARS_VALUE: Final = _gone(
    "it reads the jars of Flink's cluster", "give jars to Spark, or to StreamExecutionEnvironment.add_jars()"
)

#: Modules that cannot be imported, nor can any module below them. Modules of connectors can: they refuse their names.
MODULES: Final = (
    *("cep", "common.execution_mode", "common.utils"),
    # Connectors that only Flink's Java API has.
    *("datastream.connectors.dynamodb", "datastream.connectors.hbase", "datastream.connectors.mongodb"),
    *("datastream.time_characteristic", "datastream.utils", "dataset", "find_flink_home", "fn_execution", "gen_protos"),
    *("java_gateway", "ml", "pyflink_callback_server", "pyflink_gateway_server", "serializers", "shell"),
    *("testing.source_sink_utils", "testing.test_case_utils", "util", "version"),
)
#: Package whose modules cannot be imported, apart from those that flinkish has.
TABLE: Final = "table"

ABSENT: Final[Mapping[str, Absence]] = MappingProxyType(
    {
        # Whole modules.
        "cep": _CEP,
        "common.utils": JAVA_OBJECT,
        "datastream.utils": JAVA_OBJECT,
        "dataset": _DATA_SET,
        "find_flink_home": _MAIN_PARTS,
        "fn_execution": _MAIN_PARTS,
        "gen_protos": _MAIN_PARTS,
        "java_gateway": _GATEWAY,
        "ml": _ML,
        "pyflink_callback_server": _GATEWAY,
        "pyflink_gateway_server": _GATEWAY,
        "serializers": _internal("it is how PyFlink's processes exchange records", "declare types with Types"),
        "shell": _unsupported("there is no shell", "use `python -i` or a notebook; execute_and_collect() shows results"),
        "table": TABLE_API,
        "testing.source_sink_utils": _TEST_TOOLS,
        "testing.test_case_utils": _TEST_TOOLS,
        "util": _internal("it holds PyFlink's own tools", "leave it out; flinkish's errors are in flinkish.common.errors"),
        "util.exceptions": _unsupported(
            "no errors come from Java code of Flink", "catch FlinkishError, or another of flinkish.common.errors"
        ),
        "util.java_utils": _GATEWAY,
        "version": _unsupported("PyFlink's versions do not apply", "use flinkish.__version__"),
        # Connectors.
        "datastream.connectors.cassandra": _java_connector("Cassandra", "cassandra-driver"),
        "datastream.connectors.dynamic_kafka": _DYNAMIC_KAFKA,
        "datastream.connectors.dynamodb": _java_connector("DynamoDB", "boto3"),
        "datastream.connectors.elasticsearch": _java_connector("Elasticsearch", "elasticsearch"),
        "datastream.connectors.hbase": _java_connector("HBase", "happybase"),
        "datastream.connectors.kinesis": _java_connector("Kinesis", "boto3"),
        "datastream.connectors.mongodb": _java_connector("MongoDB", "pymongo"),
        "datastream.connectors.pulsar": _PULSAR,
        "datastream.connectors.rabbitmq": _RABBITMQ,
        **{
            f"datastream.connectors.{name}": absence
            for absence, names in (
                (_DYNAMIC_KAFKA, ("DynamicKafkaSource", "DynamicKafkaSourceBuilder", "KafkaMetadataService")),
                (_DYNAMIC_KAFKA, ("KafkaRecordDeserializationSchema", "KafkaStreamSetSubscriber", "KafkaStreamSubscriber")),
                (_DYNAMIC_KAFKA, ("SingleClusterTopicMetadataService", "StreamPatternSubscriber")),
                (_PULSAR, ("PulsarSource", "PulsarSourceBuilder", "StartCursor", "StopCursor")),
                (_RABBITMQ, ("RMQConnectionConfig", "RMQSink", "RMQSource")),
            )
            for name in names
        },
        # Names of Flink's Java API.
        **{
            f"datastream.{module}Rich{name}": _unsupported(
                "every function has open() and close(), as in PyFlink", f"use {name}, which has both"
            )
            for module in ("", "functions.")
            for name in _RICH
        },
        # Names of modules that are there.
        "keyword": _MAIN_PARTS,
        "add_version_doc": _MAIN_PARTS,
        "common.constants.DEFAULT_OUTPUT_TAG": INTERNAL,
        "common.serializer.void": INTERNAL,
        "datastream.data_stream.WINDOW_STATE_NAME": INTERNAL,
        "common.serialization.RowDataBulkWriterFactory": _internal(
            "it belongs to the Table API", "use the BulkWriters of flinkish.datastream.formats"
        ),
        **{
            f"datastream.functions.{name}": INTERNAL
            for name in (
                "AsyncFunctionDescriptor",
                "FunctionWrapper",
                "InternalIterableAllWindowFunction",
                "InternalIterableProcessAllWindowFunction",
                "InternalIterableProcessWindowFunction",
                "InternalIterableWindowFunction",
                "InternalProcessAllWindowContext",
                "InternalProcessWindowContext",
                "InternalSingleValueAllWindowFunction",
                "InternalSingleValueProcessAllWindowFunction",
                "InternalSingleValueProcessWindowFunction",
                "InternalSingleValueWindowFunction",
                "InternalWindowFunction",
                "ReduceFunctionWrapper",
            )
        },
        "datastream.functions.JavaFunctionWrapper": JAVA_OBJECT,
        "datastream.window.Min": INTERNAL,
        "datastream.window.WindowOperationDescriptor": INTERNAL,
        "datastream.window.long_to_int_with_bit_mixing": INTERNAL,
        "datastream.window.mod_inverse": INTERNAL,
        # Names of Flink 1.x, as of 1.20.
        "common.ExecutionMode": EXECUTION_MODE,
        "common.execution_mode": EXECUTION_MODE,
        "datastream.TimeCharacteristic": TIME_CHARACTERISTIC,
        "datastream.time_characteristic": TIME_CHARACTERISTIC,
        **{
            f"datastream.{module}{name}": absence
            for module in ("", "state_backend.")
            for name, absence in (
                ("MemoryStateBackend", _MEMORY_BACKEND),
                ("FsStateBackend", _FS_BACKEND),
                ("RocksDBStateBackend", _ROCKSDB_BACKEND),
            )
        },
        "datastream.ExternalizedCheckpointCleanup": EXTERNALIZED_CLEANUP,
        "datastream.checkpoint_config.ExternalizedCheckpointCleanup": EXTERNALIZED_CLEANUP,
    }
)
