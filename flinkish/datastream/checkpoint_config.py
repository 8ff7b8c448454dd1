"""CheckpointConfig: the checkpointing settings of a program, as methods over its configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from flinkish.common import options
from flinkish.common.absent import AbsentMember, add_getattr
from flinkish.common.absent_names import CHECKPOINT_STORAGE, EXTERNALIZED_CLEANUP
from flinkish.common.arguments import bool_of, instance_of, int_of
from flinkish.common.config_options import ConfigOption
from flinkish.common.configuration import Configuration
from flinkish.common.limits import INT_MAX
from flinkish.common.time import AmountOfTime, Duration, milliseconds_of
from flinkish.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, configuration_of_storage
from flinkish.datastream.checkpointing_mode import CheckpointingMode
from flinkish.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

#: The shortest interval and timeout that Flink accepts, in milliseconds.
_MINIMAL_CHECKPOINT_TIME: Final = 10


class CheckpointConfig:
    """Settings of the checkpoints of a program. Times are milliseconds; every setter returns the object itself.

    Raises InvalidArgumentError (a TypeError) for an argument of a wrong type, InvalidProgramError (a ValueError) for a value
    out of range.
    """

    get_checkpoint_storage = AbsentMember(CHECKPOINT_STORAGE)
    enable_externalized_checkpoints = AbsentMember(EXTERNALIZED_CLEANUP)
    get_externalized_checkpoint_cleanup = AbsentMember(EXTERNALIZED_CLEANUP)
    set_externalized_checkpoint_cleanup = AbsentMember(EXTERNALIZED_CLEANUP)

    DEFAULT_MODE: Final = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: Final = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: Final = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: Final = 1
    UNDEFINED_TOLERABLE_CHECKPOINT_NUMBER: Final = -1

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Make a CheckpointConfig that reads and changes the given configuration, or a new one if none is given."""
        self._configuration = Configuration() if configuration is None else configuration

    def _set(self, option: ConfigOption[Any], value: Any) -> CheckpointConfig:
        self._configuration.set(option, value)
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Return whether periodic checkpoints are enabled."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the checkpointing mode; AT_LEAST_ONCE if checkpoints are disabled, as in Flink."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[self._configuration.get(options.CHECKPOINTING_CONSISTENCY_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the checkpointing mode, EXACTLY_ONCE or AT_LEAST_ONCE."""
        instance_of("checkpointing_mode", checkpointing_mode, CheckpointingMode)
        return self._set(options.CHECKPOINTING_CONSISTENCY_MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Return the time between two checkpoints; -1 if checkpoints are disabled."""
        interval = self._configuration.get(options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None or interval <= 0 else interval

    def set_checkpoint_interval(self, checkpoint_interval: int | AmountOfTime) -> CheckpointConfig:
        """Set the time between the starts of two checkpoints (int: ms), at least 10 ms; this enables checkpoints."""
        hint = "leave it unset to run without checkpoints."
        interval = milliseconds_of(
            checkpoint_interval, "checkpoint_interval", or_number=True, minimum=_MINIMAL_CHECKPOINT_TIME, hint=hint
        )
        return self._set(options.CHECKPOINTING_INTERVAL, interval)

    def get_checkpoint_timeout(self) -> int:
        """Return the time after which an incomplete checkpoint is aborted."""
        return self._configuration.get(options.CHECKPOINTING_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int | AmountOfTime) -> CheckpointConfig:
        """Set the time (int: ms) after which an incomplete checkpoint is aborted; at least 10 ms."""
        timeout = milliseconds_of(checkpoint_timeout, "checkpoint_timeout", or_number=True, minimum=_MINIMAL_CHECKPOINT_TIME)
        return self._set(options.CHECKPOINTING_TIMEOUT, timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the minimum time between the end of one checkpoint and the start of the next."""
        return self._configuration.get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int | AmountOfTime) -> CheckpointConfig:
        """Set the minimum time (int: ms) between the end of one checkpoint and the start of the next.

        With a pause there is never more than one checkpoint at a time.
        """
        pause = milliseconds_of(min_pause_between_checkpoints, "min_pause_between_checkpoints", or_number=True, minimum=0)
        return self._set(options.MIN_PAUSE_BETWEEN_CHECKPOINTS, pause)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints may be in progress at once."""
        return self._configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be in progress at once, at least one."""
        count = int_of("max_concurrent_checkpoints", max_concurrent_checkpoints, minimum=1)
        return self._set(options.MAX_CONCURRENT_CHECKPOINTS, count)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job; if not, no failed checkpoint does."""
        bool_of("fail_on_checkpointing_errors", fail_on_checkpointing_errors)
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else INT_MAX)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail before the job fails."""
        return self._configuration.get(options.TOLERABLE_FAILURE_NUMBER)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail before the job fails."""
        number = int_of("tolerable_checkpoint_failure_number", tolerable_checkpoint_failure_number, minimum=0)
        return self._set(options.TOLERABLE_FAILURE_NUMBER, number)

    def set_externalized_checkpoint_retention(self, retention_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Set whether the last checkpoints are kept when the job ends."""
        instance_of("retention_mode", retention_mode, ExternalizedCheckpointRetention)
        return self._set(options.EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints may be kept when the job ends."""
        return self.get_externalized_checkpoint_retention() is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return whether the last checkpoints are kept when the job ends."""
        return ExternalizedCheckpointRetention[self._configuration.get(options.EXTERNALIZED_CHECKPOINT_RETENTION)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers overtake records; never in mode AT_LEAST_ONCE."""
        return self._configuration.get(options.ENABLE_UNALIGNED) and (
            self._configuration.get(options.CHECKPOINTING_CONSISTENCY_MODE) == CheckpointingMode.EXACTLY_ONCE.name
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records.

        Differs from Flink: on Spark the records of an epoch have arrived before its barrier, so there is nothing to overtake.
        """
        bool_of("enabled", enabled)
        return self._set(options.ENABLE_UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Make barriers wait for the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration | timedelta) -> CheckpointConfig:
        """Set how long alignment may take before an unaligned checkpoint is taken instead; 0 = immediately.

        Raises InvalidArgumentError unless it is a Duration or timedelta that is not negative.
        """
        timeout = milliseconds_of(alignment_timeout, "alignment_timeout", kinds=(Duration,), minimum=0)
        return self._set(options.ALIGNED_CHECKPOINT_TIMEOUT, timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return how long alignment may take before an unaligned checkpoint is taken instead."""
        return Duration.of_millis(self._configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT))

    #: The older names.
    set_alignment_timeout = set_aligned_checkpoint_timeout
    get_alignment_timeout = get_aligned_checkpoint_timeout

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Use unaligned checkpoints even where Flink advises against them; like `enable_unaligned_checkpoints`."""
        bool_of("force_unaligned_checkpoints", force_unaligned_checkpoints)
        return self._set(options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return the value that was set, or the default."""
        return self._configuration.get(options.FORCE_UNALIGNED)

    # Methods of Flink 1.x, for programs that still use them.

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where checkpoints are written; from Flink 1.x, replaced by the key execution.checkpointing.dir."""
        instance_of("storage", storage, CheckpointStorage)
        self._configuration.add_all(configuration_of_storage(storage))
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the folder of the checkpoints; from Flink 1.x, replaced by the key execution.checkpointing.dir."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))


add_getattr(__name__)
