"""Rolling policies: when a sink closes a part file and begins another one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import int_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.time import AmountOfTime, milliseconds_of


@dataclass(slots=True)
class PartFileInfo:
    """Data of the part file that a bucket is writing. Times are processing time in milliseconds, the size is in bytes."""

    bucket_id: str
    creation_time: int
    last_update_time: int
    size: int


class RollingPolicy(ABC):
    """Decides when a part file is complete. Subclass it for a policy of your own."""

    get_java_object = AbsentMember(JAVA_OBJECT)

    @abstractmethod
    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Return whether to close the file at a checkpoint."""

    @abstractmethod
    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Return whether to close the file before a record is written."""

    @abstractmethod
    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        """Return whether to close the file now; called at the end of an epoch, at most once per bucket check interval."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024,
        rollover_interval: int | AmountOfTime = 60 * 1000,
        inactivity_interval: int | AmountOfTime = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Return a policy that closes files by size (bytes), by age and by time without records (int: ms)."""
        return DefaultRollingPolicy(
            part_size, _millis(rollover_interval, "rollover_interval"), _millis(inactivity_interval, "inactivity_interval")
        )

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Return a policy that closes files at each checkpoint, and only then."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Closes files larger than `part_size` bytes, older than `rollover_interval` ms or unused for `inactivity_interval` ms."""

    part_size: int = 128 * 1024 * 1024
    rollover_interval: int = 60 * 1000
    inactivity_interval: int = 60 * 1000

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            value = getattr(self, name)
            int_of(f"{name} of the rolling policy", value)
            if value <= 0:
                raise InvalidProgramError(f"{name} of the rolling policy must be more than 0; got {value}")

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        return part.size > self.part_size

    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        return part.size > self.part_size

    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        return (
            current_time - part.creation_time >= self.rollover_interval
            or current_time - part.last_update_time >= self.inactivity_interval
        )


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Closes files at checkpoints only."""

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        return True

    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        return False

    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        return False


def _millis(value: object, argument: str) -> int:
    return milliseconds_of(value, f"{argument} of the rolling policy", rule="must be an int (milliseconds)", or_number=True)
