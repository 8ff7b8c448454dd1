"""ExecutionConfig: settings of a program, as methods over its configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from flinkish.common import config_options, options
from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import EXECUTION_MODE, INPUT_DEPENDENCY, RESTART_STRATEGY, SERIALIZERS
from flinkish.common.arguments import instance_of, int_of
from flinkish.common.configuration import Configuration
from flinkish.common.limits import UPPER_BOUND_MAX_PARALLELISM
from flinkish.common.time import AmountOfTime, milliseconds_of


def default_parallelism() -> int:
    """Return the number of cores that this process may use: the default parallelism."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ExecutionConfig:
    """Settings of a program. Every setter returns the object itself; all settings are kept in one `Configuration`."""

    get_execution_mode = AbsentMember(EXECUTION_MODE)
    set_execution_mode = AbsentMember(EXECUTION_MODE)
    get_restart_strategy = AbsentMember(RESTART_STRATEGY)
    set_restart_strategy = AbsentMember(RESTART_STRATEGY)
    add_default_kryo_serializer = AbsentMember(SERIALIZERS)
    disable_auto_type_registration = AbsentMember(SERIALIZERS)
    get_registered_types_with_kryo_serializer_classes = AbsentMember(SERIALIZERS)
    is_auto_type_registration_disabled = AbsentMember(SERIALIZERS)
    register_kryo_type = AbsentMember(SERIALIZERS)
    register_pojo_type = AbsentMember(SERIALIZERS)
    register_type_with_kryo_serializer = AbsentMember(SERIALIZERS)
    get_default_input_dependency_constraint = AbsentMember(INPUT_DEPENDENCY)
    set_default_input_dependency_constraint = AbsentMember(INPUT_DEPENDENCY)

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Make an ExecutionConfig that reads and changes the given configuration, or a new one if none is given."""
        self._configuration = Configuration() if configuration is None else configuration

    def _set(self, option: config_options.ConfigOption[Any], value: Any) -> ExecutionConfig:
        self._configuration.set(option, value)
        return self

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted; without effect: cloudpickle includes only the variables that a function uses."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.CLOSURE_CLEANER_LEVEL) != "NONE"

    def set_auto_watermark_interval(self, interval: int | AmountOfTime) -> ExecutionConfig:
        """Set how often periodic watermarks are emitted (int: ms); 0 switches them off."""
        return self._set(options.AUTO_WATERMARK_INTERVAL, milliseconds_of(interval, "interval", or_number=True, minimum=0))

    def get_auto_watermark_interval(self) -> int:
        """Return how often periodic watermarks are emitted, in milliseconds."""
        return self._configuration.get(options.AUTO_WATERMARK_INTERVAL)

    def set_latency_tracking_interval(self, interval: int | AmountOfTime) -> ExecutionConfig:
        """Set how often the latency from sources to operators is measured (int: ms); 0 = never, the default."""
        return self._set(options.LATENCY_INTERVAL, milliseconds_of(interval, "interval", or_number=True))

    def get_latency_tracking_interval(self) -> int:
        """Return the value given to `set_latency_tracking_interval`, in milliseconds; 0 if it was not called."""
        return self._configuration.get(options.LATENCY_INTERVAL)

    def get_parallelism(self) -> int:
        """Return the parallelism of operators without one of their own."""
        return self._configuration.get(options.DEFAULT_PARALLELISM) or default_parallelism()

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators without one of their own; -1 restores the default, -2 changes nothing.

        Raises InvalidArgumentError for any other number below 1.
        """
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.DEFAULT_PARALLELISM.key)
            return self
        return self._set(options.DEFAULT_PARALLELISM, int_of("parallelism", parallelism, minimum=1))

    def get_max_parallelism(self) -> int:
        """Return the maximum parallelism, which is the number of key groups; -1 if not set."""
        return self._configuration.get(options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the maximum parallelism (1 to 32768): the number of key groups, beyond which the job can never be scaled.

        Raises InvalidArgumentError for any other number.
        """
        checked = int_of("max_parallelism", max_parallelism, minimum=1, maximum=UPPER_BOUND_MAX_PARALLELISM)
        return self._set(options.MAX_PARALLELISM, checked)

    def get_task_cancellation_interval(self) -> int:
        """Return the value of task.cancellation.interval, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_INTERVAL)

    def set_task_cancellation_interval(self, interval: int | AmountOfTime) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.TASK_CANCELLATION_INTERVAL, milliseconds_of(interval, "interval", or_number=True))

    def get_task_cancellation_timeout(self) -> int:
        """Return the value of task.cancellation.timeout, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: int | AmountOfTime) -> ExecutionConfig:
        """Set how long close() methods may take at the end of a job on Spark (int: ms) before the job fails; 0 = no limit.

        Differs from Flink: there the timeout begins when a task is cancelled, and ends the whole TaskManager.
        """
        return self._set(options.TASK_CANCELLATION_TIMEOUT, milliseconds_of(timeout, "timeout", or_number=True, minimum=0))

    def enable_force_kryo(self) -> ExecutionConfig:
        """Accepted; without effect: flinkish does not use Kryo."""
        return self._set(options.FORCE_KRYO, True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.FORCE_KRYO)

    def enable_force_avro(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.FORCE_AVRO, True)

    def disable_force_avro(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.FORCE_AVRO)

    def enable_generic_types(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.GENERIC_TYPES, True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Accepted; without effect."""
        return self._set(options.GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        """Return the value that was set, or the default."""
        return not self._configuration.get(options.GENERIC_TYPES)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Give operators without a uid one that is derived from the program's structure."""
        return self._set(options.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse programs that contain operators without a uid."""
        return self._set(options.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether operators without a uid get one."""
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Accepted; records are never copied between chained operators."""
        return self._set(options.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Accepted; records are never copied between chained operators."""
        return self._set(options.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.OBJECT_REUSE)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that `RuntimeContext.get_job_parameter` reads."""
        parameters = self._configuration.get(options.GLOBAL_JOB_PARAMETERS)
        return dict(parameters or {})

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Set the parameters that `RuntimeContext.get_job_parameter` reads; values become text.

        Raises InvalidArgumentError if the argument is not a dict.
        """
        instance_of("set_global_job_parameters()", global_job_parameters_dict, Mapping)
        parameters = {str(key): config_options.to_text(value) for key, value in global_job_parameters_dict.items()}
        return self._set(options.GLOBAL_JOB_PARAMETERS, parameters)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return an empty dict: flinkish does not use Kryo."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return an empty list: flinkish does not use Kryo."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return an empty list: flinkish has no POJOs."""
        return []

    def is_use_snapshot_compression(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Accepted; state files are always compressed."""
        return self._set(options.SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def to_configuration(self) -> Configuration:
        """Return the configuration that this object reads and changes."""
        return self._configuration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)
