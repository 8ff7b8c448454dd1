"""StreamExecutionEnvironment: the entry point of a program."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NoReturn, cast, overload

from flinkish.common import options
from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT, RESTART_STRATEGY, SERIALIZERS, SPARK_READ, TIME_CHARACTERISTIC
from flinkish.common.arguments import check, instance_of, int_of, text_of
from flinkish.common.config_file import PROPERTIES_VARIABLE, check_key, load_configuration
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, JobExecutionError, UnsupportedError
from flinkish.common.execution_config import ExecutionConfig
from flinkish.common.files import store_settings
from flinkish.common.io import InputFormat
from flinkish.common.job_client import JobClient
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.paths import location
from flinkish.common.pickling import check_serializable, own_copy
from flinkish.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation, Types, type_of
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.datastream.checkpoint_config import CheckpointConfig
from flinkish.datastream.checkpointing_mode import CheckpointingMode
from flinkish.datastream.closeable_iterator import CloseableIterator
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.shapes import DataFrame, T, TupleT
from flinkish.datastream.slot_sharing_group import SlotSharingGroup
from flinkish.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
    configuration_of_backend,
)
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.executor_loader import ExecutorJobClient, load_executor
from flinkish.program.program import CachedFile, Program, PythonArchive, PythonRequirements
from flinkish.program.program_builder import ProgramBuilder
from flinkish.program.sources import AnySource, DriverSource, NativeSource, Source
from flinkish.program.transformations import SourceTransformation, Transformation, TransformationId
from flinkish.udf.checkpoint import CheckpointedFunction, CheckpointListener
from flinkish.udf.function_wrappers import check_kind, check_strategy, describe
from flinkish.udf.functions import SourceFunction

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME: Final = "Flink Streaming Job"
#: Flink's PythonDependencyUtils: between files, and between the parts of one.
_FILE_DELIMITER: Final = ","
_PARAMETER_DELIMITER: Final = "#"


class StreamExecutionEnvironment:
    """Creates streams, holds the settings of a program, and executes it.

    The configuration comes from conf/config.yaml, then `-Dkey=value` on the command line of the script, then the Configuration
    given here, then the setters; each overrides those before it.

    Example:

        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.set_parallelism(2).get_parallelism()
        2
    """

    _j_stream_execution_environment = AbsentMember(JAVA_OBJECT)
    readStream = AbsentMember(SPARK_READ)
    get_stream_time_characteristic = AbsentMember(TIME_CHARACTERISTIC)
    set_stream_time_characteristic = AbsentMember(TIME_CHARACTERISTIC)
    add_default_kryo_serializer = AbsentMember(SERIALIZERS)
    register_type = AbsentMember(SERIALIZERS)
    register_type_with_kryo_serializer = AbsentMember(SERIALIZERS)
    get_restart_strategy = AbsentMember(RESTART_STRATEGY)

    _default_local_parallelism: ClassVar[int | None] = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Make an environment with exactly the given configuration; programs use `get_execution_environment`."""
        self._configuration = Configuration() if configuration is None else Configuration(configuration)
        store_settings.use_to_build(self._configuration)
        self._builder = ProgramBuilder()
        self._config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._cached_files: dict[str, CachedFile] = {}
        self._state_backend: StateBackend | None = None

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return a new environment.

        Raises ConfigurationError for a malformed value in the configuration file, a property or `configuration`.
        """
        if configuration is not None:
            instance_of(
                "get_execution_environment()",
                configuration,
                Configuration,
                hint="Configuration.from_dict({...}) makes one of a dict.",
            )
        loaded = load_configuration(_properties(sys.argv[1:], os.environ), environment=os.environ)
        environment = StreamExecutionEnvironment(loaded)
        default = StreamExecutionEnvironment._default_local_parallelism
        if default is not None and not loaded.contains(options.DEFAULT_PARALLELISM):
            environment._configuration.set(options.DEFAULT_PARALLELISM, default)
        if configuration is not None:
            environment.configure(configuration)
        return environment

    @property
    def transformations(self) -> dict[TransformationId, Transformation]:
        """All transformations made so far, by id, in order."""
        return self._builder.transformations

    # Settings.

    def get_config(self) -> ExecutionConfig:
        """Return the settings of the program; changing them changes the environment."""
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Apply settings by their keys, such as pipeline.operator-chaining.enabled.

        Raises ConfigurationError for a malformed value.
        """
        instance_of("configure()", configuration, Configuration)
        before = self.get_parallelism()
        values: dict[str, Any] = {}
        configuration.add_all_to_dict(values)
        for key, value in values.items():
            option = options.OPTIONS_BY_ANY_KEY.get(key)
            check_key(configuration, key)
            if option is None:
                self._configuration.put(key, value, configuration.origin(key))
            else:
                self._configuration.set(option, value)
        store_settings.use_to_build(self._configuration)
        if self.get_parallelism() != before:
            self._builder.fix_parallelism(before)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the parallelism of the operators made from now on that set none; -1: the number of cores, -2: no change."""
        before = self.get_parallelism()
        number = int_of("parallelism", parallelism)
        valid = number != 0 and number >= ExecutionConfig.PARALLELISM_UNKNOWN
        check(valid, f"parallelism must be at least 1, or -1 for the number of cores; got {number}.")
        self._config.set_parallelism(number)
        self._builder.fix_parallelism(before)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that set none; the number of cores unless set."""
        return self._config.get_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, 1 to 32768: the upper limit of the parallelism."""
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 unless set."""
        return self._config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set whether the program runs as a stream or as a batch; AUTOMATIC is BATCH if all sources are bounded.

        An unbounded source in BATCH is refused when the program is executed.

        In BATCH mode no checkpoints are taken: a job that fails starts from the beginning.
        """
        instance_of("set_runtime_mode()", execution_mode, RuntimeExecutionMode)
        self._configuration.set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int | AmountOfTime) -> StreamExecutionEnvironment:
        """Set how long records may wait in a buffer (int: ms); -1: until it is full.

        Differs from Flink: kept, but records travel with the micro-batch they are read in.
        """
        self._configuration.set(
            options.BUFFER_TIMEOUT, milliseconds_of(timeout_millis, "timeout_millis", or_number=True, minimum=-1)
        )
        return self

    def get_buffer_timeout(self) -> int:
        """Return how long records may wait in a buffer, in milliseconds."""
        return self._configuration.get(options.BUFFER_TIMEOUT)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Have every operator run in a task of its own."""
        self._configuration.set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators are chained."""
        return self._configuration.get(options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return whether operators of different max parallelism may be chained."""
        return self._configuration.get(options.OPERATOR_CHAINING_CHAIN_OPERATORS_WITH_DIFFERENT_MAX_PARALLELISM)

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the default parallelism of environments made from now on in this process."""
        StreamExecutionEnvironment._default_local_parallelism = int_of("parallelism", parallelism, minimum=1)

    def get_default_local_parallelism(self) -> int:
        """Return the default parallelism of environments made in this process."""
        default = StreamExecutionEnvironment._default_local_parallelism
        return ExecutionConfig().get_parallelism() if default is None else default

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Register the resources of a slot sharing group; operators then give only its name."""
        instance_of("register_slot_sharing_group()", slot_sharing_group, SlotSharingGroup)
        name = slot_sharing_group.get_name()
        check(
            self._slot_sharing_groups.setdefault(name, slot_sharing_group) == slot_sharing_group,
            f"the slot sharing group {name!r} is already registered with other resources.",
            hint="give each set of resources a name of its own.",
        )
        return self

    # Checkpoints.

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpointing settings; changing them changes the environment."""
        return self._checkpoint_config

    def enable_checkpointing(
        self, interval: int | AmountOfTime, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint after each interval (int: ms), at least 10 ms."""
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        self._checkpoint_config.set_checkpoint_interval(interval)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between two checkpoints in milliseconds; -1 if checkpoints are disabled."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the checkpointing mode."""
        return self._checkpoint_config.get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers overtake records."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether barriers overtake records even where Flink advises against it."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Accepted; state is always kept as a change log on Spark."""
        self._configuration.set(options.ENABLE_STATE_CHANGE_LOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the value that was set, None if none was."""
        return self._configuration.get(options.ENABLE_STATE_CHANGE_LOG)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set the folder of savepoints that are requested without a folder."""
        self._configuration.set(options.SAVEPOINT_DIRECTORY, text_of("directory", directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the folder of savepoints that are requested without one; None unless set."""
        return self._configuration.get(options.SAVEPOINT_DIRECTORY)

    # Dependencies.

    def add_python_file(self, file_path: str) -> None:
        """Put a Python file, folder, zip or wheel on the tasks' sys.path, before installed packages.

        Differs from Flink: with `execution.engine: local`, and for code of sources and sinks on the driver, it comes after
        installed packages, and with a .py file the others of its folder can be imported too.
        """
        files = self._configuration.get(options.PYTHON_FILES)
        path = _existing(file_path, "add_python_file", delimiters=_FILE_DELIMITER)
        # As in Flink the one added last comes first.
        self._configuration.set(options.PYTHON_FILES, path if not files else _FILE_DELIMITER.join([path, files]))

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Set the packages to install for the tasks, from `requirements_cache_dir` only (offline) if that is given.

        They are installed when the program is executed, once per job and by pip of the tasks' interpreter, into a folder that is
        removed at the end of the job; on a cluster below io.tmp.dirs, which all machines can access. They come after the
        program's Python files and before installed packages. `execute` raises DependencyError, with pip's output, if pip fails.

        Differs from Flink: with `execution.engine: local`, and for code of sources and sinks on the driver, they come after
        installed packages.
        """
        value = _existing(requirements_file_path, "set_python_requirements", delimiters=_PARAMETER_DELIMITER)
        if requirements_cache_dir is not None:
            value += _PARAMETER_DELIMITER + _existing(requirements_cache_dir, "set_python_requirements")
        self._configuration.set(options.PYTHON_REQUIREMENTS, value)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Have a zip or tar file unpacked below the tasks' working folder, in `target_dir` (else in a folder of the file's name).

        Differs from Flink: with `execution.engine: local` the tasks run in this process, whose working folder is another one
        while they do.
        """
        value = _existing(archive_path, "add_python_archive", delimiters=_FILE_DELIMITER + _PARAMETER_DELIMITER)
        if target_dir is not None:
            value += _PARAMETER_DELIMITER + target_dir
        archives = self._configuration.get(options.PYTHON_ARCHIVES)
        self._configuration.set(options.PYTHON_ARCHIVES, value if not archives else _FILE_DELIMITER.join([archives, value]))

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python interpreter of the tasks; it must be of this interpreter's version, and have flinkish's packages.

        With `execution.engine: local` any other than this one is refused when the program is executed.
        """
        self._configuration.set(options.PYTHON_EXECUTABLE, text_of("python_exec", python_exec))

    def add_jars(self, *jars_path: str) -> None:
        """Add jars to Spark's session, by path or URL (file, http, hdfs, ...): for extensions and functions of Spark's own.

        Differs from Flink: flinkish runs no Java of the user and its connectors need no jars. They come with the session that
        flinkish makes (spark.jars); where a session or JVM of Spark runs already, it must have them (else an EngineError names
        those that are missing). Refused with `execution.engine: local`, which has no JVM.
        """
        self._configuration.set(options.JARS, [*(self._configuration.get(options.JARS) or []), *jars_path])

    def add_classpaths(self, *classpaths: str) -> None:
        """Add jars or folders that all machines have to Spark's session, by path or file URL; see `add_jars`."""
        self._configuration.set(options.CLASSPATHS, [*(self._configuration.get(options.CLASSPATHS) or []), *classpaths])

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Put a file or folder into the tasks' working folder, under a name.

        Differs from Flink: there Python functions cannot access the registered files. With `execution.engine: local` see
        `add_python_archive`.
        """
        if name in self._cached_files:
            raise InvalidProgramError(f"a cached file named {name!r} is already registered: {self._cached_files[name].path}.")
        path = _existing(file_path, "register_cached_file")
        self._cached_files[name] = CachedFile(name=name, path=path, executable=executable)

    # Sources.

    @overload
    def from_collection(self, collection: DataFrame, type_info: TypeInformation | None = None) -> DataStream[Any]: ...

    @overload
    def from_collection(self, collection: Iterable[T], type_info: BasicTypeInfo | None = None) -> DataStream[T]: ...

    @overload
    def from_collection(self, collection: Iterable[TupleT], type_info: TupleTypeInfo) -> DataStream[TupleT]: ...

    @overload
    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation) -> DataStream[Any]: ...

    def from_collection(self, collection: Iterable[Any] | DataFrame, type_info: TypeInformation | None = None) -> DataStream[Any]:
        """Make a stream of the elements of a collection, emitted in order by one subtask.

        With a type, the elements are converted to it; a TypeMismatchError names one that cannot be. Always of parallelism 1.
        A pandas DataFrame is the collection of its rows: tuples for a TUPLE, else Rows.

        Raises InvalidArgumentError for an iterator or generator, as it may never end: from_collection(list(...)) takes one that
        does, a DataGeneratorSource or SourceFunction replaces one that does not.

        Differs from Flink: whole numbers that are out of the type's range are refused, not wrapped around; so are a str, bytes
        and a dict: PyFlink makes a stream of their characters, numbers and keys. The elements of a set are sorted.

        Example:

            >>> pairs = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
            >>> pairs.execute_and_collect(limit=9)
            [('a', 1), ('b', 2)]
        """
        from flinkish.datastream.connectors.collection import CollectionSource

        record_type = type_of(type_info, "from_collection", "type_info")
        source = CollectionSource(cast("Iterable[Any]", collection), None if type_info is None else record_type)
        check_serializable(source, "the collection of from_collection()")
        return self._source(source, "Collection Source", record_type, None, single=True)

    def from_source(
        self,
        source: Source[T, Any, Any] | DriverSource[T] | NativeSource[T],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """Make a stream of the records of a source. Without a type, the source's own is used, else any object.

        Differs from Flink: a timestamp assigner of the strategy is used; PyFlink silently ignores one written in Python.

        Example:

            >>> numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
            >>> numbers.execute_and_collect(limit=9)
            [1, 2, 3]
        """
        if not isinstance(source, (Source, DriverSource, NativeSource)):
            raise InvalidArgumentError(
                f"from_source() needs a Source; got {source!r} of type {type(source).__name__}.",
                hint="a builder must be finished with build(); a SourceFunction goes to add_source().",
            )
        check_strategy(watermark_strategy, "from_source")
        text_of("source_name", source_name)
        check_serializable(source, f"the source {type(source).__name__} of from_source()")
        source.validate()
        record_type = source.produced_type() if type_info is None else None
        if record_type is None:
            record_type = type_of(type_info, "from_source", "type_info")
        if watermark_strategy.alignment is not None:
            _check_alignment(source, watermark_strategy, source_name)
        # A strategy that neither makes watermarks nor assigns times is none.
        needed = watermark_strategy.generates_watermarks or watermark_strategy.timestamp_assigner is not None
        watermarks = watermark_strategy if needed else None
        return self._source(source, source_name, record_type, watermarks, single=isinstance(source, DriverSource))

    def from_data_frame(
        self,
        df: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        *,
        as_tuples: bool = False,
    ) -> DataStream[Any]:
        """Make a stream of the rows of a Spark DataFrame, streaming (`spark.readStream`) or not; needs execution.engine spark.

        `watermark_strategy`: None = no watermarks. It counts for the whole DataFrame: out-of-orderness is measured against the
        latest row of all batches before, as with Spark's withWatermark(). `name`: of the source, by default "DataFrame".
        `as_tuples`: records are tuples instead of Rows.

        A DataFrame that is not streaming is computed once, and the stream ends with its rows. Its order says nothing about event
        times, so its watermark is held back until all rows have been read: event-time windows and timers then fire in order, and
        no row is late. Until then their state is kept; execution.runtime-mode BATCH needs less memory. A streaming DataFrame must
        not keep state (aggregations, dropDuplicates, joins of streams).
        Raises InvalidArgumentError for any other object, and UnsupportedError for a DataFrame of Spark Connect, one that
        keeps state or that Spark does not run as a stream, or a column of a type that has no counterpart.

        Example, in a process with a SparkSession `spark`::

            env.from_data_frame(spark.range(3)).map(lambda row: row.id * 2, Types.LONG()).print()
        """
        from flinkish.datastream.connectors.data_frame import data_frame_source

        strategy = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
        return self.from_source(data_frame_source(df, as_tuples=as_tuples), strategy, "DataFrame" if name is None else name)

    def add_source(
        self,
        source_func: SourceFunction | Source[Any, Any, Any] | DriverSource[Any],
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Make a stream of the records that a SourceFunction emits; always of parallelism 1, and not replayable.

        Raises UnsupportedError if it is a CheckpointedFunction or CheckpointListener, too: it runs on the driver, ahead of
        the job, and takes no part in checkpoints.

        Example:

            >>> class Numbers(SourceFunction):
            ...     def run(self, ctx):
            ...         ctx.collect(1)
            ...     def cancel(self):
            ...         pass
            >>> env.add_source(Numbers()).execute_and_collect(limit=1)
            [1]
        """
        from flinkish.datastream.legacy_functions import SourceFunctionSource

        if isinstance(source_func, (Source, DriverSource)):
            return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)
        check_kind(source_func, SourceFunction, "add_source", hint="pass a Source to from_source().")
        if isinstance(source_func, (CheckpointedFunction, CheckpointListener)):
            raise UnsupportedError(
                f"add_source(): {describe(source_func)} is a SourceFunction with state in checkpoints; it runs on the driver, "
                "ahead of the job, so its state would not match the records that a checkpoint covers.",
                hint="write a Source (flinkish.datastream.connectors.base), whose splits are stored at their positions.",
            )
        record_type = type_of(type_info, "add_source", "type_info")
        function = own_copy(source_func, f"the source function {describe(source_func)}")
        return self._source(SourceFunctionSource(function), source_name, record_type, None, single=True)

    def create_input(self, input_format: InputFormat, type_info: TypeInformation | None = None) -> DataStream:
        """Make a stream of the records of an input format, such as AvroInputFormat. Without a type, the format's own is used.

        Example:

            >>> import fastavro, json
            >>> from flinkish.datastream.formats.avro import AvroInputFormat, AvroSchema
            >>> schema = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "int"}]}
            >>> path = f"{tempfile.mkdtemp()}/items.avro"
            >>> with open(path, "wb") as file:
            ...     fastavro.writer(file, schema, [{"id": 1}])
            >>> items = env.create_input(AvroInputFormat(path, AvroSchema.parse_string(json.dumps(schema))))
            >>> items.execute_and_collect(limit=9)
            [{'id': 1}]
        """
        check_kind(input_format, InputFormat, "create_input", hint="a Source goes to from_source().")
        source = input_format.create_source()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Custom File source", type_info)

    def _source(
        self,
        source: AnySource,
        name: str,
        record_type: TypeInformation,
        watermarks: WatermarkStrategy | None,
        *,
        single: bool,
    ) -> DataStream:
        identifier = self._builder.add(
            SourceTransformation,
            name=name,
            output_type=record_type,
            parallelism=1 if single else None,
            can_be_parallel=not single,
            source=source,
            watermarks=watermarks,
        )
        return DataStream(self, identifier)

    # Execution.

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end; raises JobExecutionError if it fails. The environment may be used again.

        Example:

            >>> _ = env.from_collection([1, 2]).print()
            >>> env.execute("numbers").get_job_id() is not None
            1
            2
            True
        """
        try:
            return self._start(job_name).get_job_execution_result().result()
        except JobExecutionError as error:
            # Its text says it all; how this process waited for it is left out of the traceback.
            raise error.with_traceback(None) from error.__cause__

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Start the program and return a client of the running job.

        Example:

            >>> _ = env.from_collection([1]).print()
            >>> result = env.execute_async("one number").get_job_execution_result().result()
            1
        """
        return self._start(job_name)

    def get_execution_plan(self) -> str:
        """Return the plan of the program as JSON, in the form of Flink's plan visualizer.

        Example:

            >>> import json
            >>> _ = env.from_collection([1]).map(str).print()
            >>> json.loads(env.get_execution_plan())["nodes"][1]["type"]
            'Map'
        """
        return load_executor().execution_plan_json(self._program(None))

    def explain(self) -> str:
        """Return all layers of the program, from the stream graph down to Spark's plan, as readable text.

        Example:

            >>> _ = env.from_collection([1]).map(str).print()
            >>> print(env.explain().splitlines()[0])
            == StreamGraph of 'Flink Streaming Job': 3 operators ==
        """
        return load_executor().explain(self._program(None))

    def close(self) -> None:
        """Remove the records of cached streams; jobs hold their own resources."""
        self._builder.clear_caches()

    def _start(self, job_name: str | None) -> JobClient:
        program = self._program(job_name)
        self._builder.clear()
        return load_executor().execute_async(program)

    def _execute_and_collect(self, job_name: str) -> CloseableIterator:
        client = self._start(job_name)
        return CloseableIterator(client, cast(ExecutorJobClient, client).collect_results())

    def _program(self, job_name: str | None) -> Program:
        if job_name is not None:
            text_of("job_name", job_name, empty=True)
        configuration = Configuration(self._configuration)
        requirements, cache = _parameters(configuration.get(options.PYTHON_REQUIREMENTS) or "")
        # Imported late, so that programs that only build jobs do not load it.
        from flinkish.datastream.connectors.dead_letters import DeadLetterSink

        return Program(
            job_name=job_name or configuration.get(options.PIPELINE_NAME) or DEFAULT_JOB_NAME,
            transformations=self._builder.to_execute(),
            configuration=configuration,
            cached_files=tuple(self._cached_files.values()),
            python_files=_split(configuration.get(options.PYTHON_FILES)),
            python_archives=tuple(
                PythonArchive(path=path, target_directory=target)
                for path, target in map(_parameters, _split(configuration.get(options.PYTHON_ARCHIVES)))
            ),
            python_requirements=PythonRequirements(path=requirements, cache_directory=cache) if requirements else None,
            dead_letters=DeadLetterSink(configuration.get(options.DEAD_LETTERS_DIR)),
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("the StreamExecutionEnvironment is part of the program and cannot be used inside a function")

    # Flink 1.x, for programs that still use it.

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> StreamExecutionEnvironment:
        """Set the restart strategy; Flink 1.x, now the keys restart-strategy.*."""
        hint = "RestartStrategies.fixed_delay_restart(3, 10_000)."
        instance_of("set_restart_strategy()", restart_strategy_configuration, RestartStrategyConfiguration, hint=hint)
        if not isinstance(restart_strategy_configuration, RestartStrategies.FallbackRestartStrategyConfiguration):
            self._configuration.add_all(restart_strategy_configuration.to_configuration())
        return self

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Set the state backend; Flink 1.x, now the key state.backend.type."""
        instance_of("set_state_backend()", state_backend, StateBackend)
        self._configuration.add_all(configuration_of_backend(state_backend))
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend:
        """Return the state backend; Flink 1.x."""
        if self._state_backend is not None:
            return self._state_backend
        rocksdb = self._configuration.get(options.STATE_BACKEND) == "rocksdb"
        return EmbeddedRocksDBStateBackend() if rocksdb else HashMapStateBackend()

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Make a stream of the lines of a file; Flink 1.x, now a FileSource.

        Example:

            >>> from pathlib import Path
            >>> file = Path(tempfile.mkdtemp(), "lines.txt")
            >>> _ = file.write_text("to be")
            >>> env.read_text_file(str(file)).execute_and_collect(limit=9)
            ['to be']
        """
        from flinkish.datastream.connectors.file_system.formats import StreamFormat
        from flinkish.datastream.connectors.file_system.source import FileSource

        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset_name), file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source", Types.STRING())

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream[str]:
        """Make a stream of the lines read from a socket; not replayable: records in flight when the job fails are lost.

        `max_retry` is how often a lost connection is re-established, one second apart; -1: without limit.

        Example:

            >>> env.socket_text_stream("localhost", 9999).map(str.upper).get_name()
            'Map'
        """
        from flinkish.datastream.connectors.socket import SocketSource

        source = SocketSource(hostname, port, delimiter=delimiter, max_retry=max_retry)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream", Types.STRING())

    def generate_sequence(self, start: int, end: int) -> DataStream[int]:
        """Make a stream of the numbers from `start` to `end`, both inclusive; Flink 1.x, now a NumberSequenceSource.

        Example:

            >>> env.generate_sequence(1, 3).execute_and_collect(limit=9)
            [1, 2, 3]
        """
        from flinkish.datastream.connectors.number_seq import NumberSequenceSource

        source = NumberSequenceSource(start, end)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Sequence Source", Types.LONG())


def _properties(arguments: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return the -Dkey=value of `flinkish run`, then those on the script's own command line."""
    given = [argument for argument in arguments if argument.startswith("-D") and "=" in argument]
    return shlex.split(environment.get(PROPERTIES_VARIABLE, "")) + given


def _check_alignment(source: object, strategy: WatermarkStrategy, name: str) -> None:
    if not isinstance(source, Source) or source.unordered:
        raise UnsupportedError(
            f"from_source({name!r}): with_watermark_alignment() needs a source that can be held back; {type(source).__name__} is "
            "read on the driver or in Spark's order, as its input comes.",
            hint="leave the alignment out.",
        )
    if not (strategy.generates_watermarks or source.emits_watermarks):
        raise InvalidProgramError(
            f"from_source({name!r}): with_watermark_alignment() needs watermarks; the strategy makes none.",
            hint="for example for_bounded_out_of_orderness(Duration.of_seconds(5)) with the same alignment.",
        )


def _existing(given: object, method: str, *, delimiters: str = "") -> str:
    """Return a path that is there; `delimiters` separate paths in the key that it is kept in, as in Flink."""
    path = text_of(f"the path of {method}()", given)
    for character in delimiters:
        check(
            character not in path,
            f"{method}({path!r}): {character!r} separates paths here, as in Flink, and cannot be in one.",
            hint="rename the file, or copy it.",
        )
    found = location(path).scheme or os.path.exists(path)
    check(bool(found), f"{method}({path!r}): there is no such file or folder ({os.path.abspath(path)}).")
    return path


def _split(value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(_FILE_DELIMITER) if part.strip())


def _parameters(value: str) -> tuple[str, str | None]:
    path, _, parameter = value.partition(_PARAMETER_DELIMITER)
    return path, parameter or None
