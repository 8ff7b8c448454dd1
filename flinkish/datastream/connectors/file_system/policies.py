"""The choices of the users of FileSink: the folder of each record, when part files are closed, and their names."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import int_of, text_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.limits import LONG_MIN
from flinkish.common.time import AmountOfTime, milliseconds_of

# Bucket assigners, which choose the folder below a sink's path for each record.


@dataclass(slots=True)
class BucketContext:
    """Times of the record that is assigned to a bucket, in milliseconds. The object is only valid during the call."""

    element_timestamp: int | None = None
    watermark: int = LONG_MIN
    processing_time: int = 0

    def timestamp(self) -> int | None:
        """Return the record's event time, None if it has none."""
        return self.element_timestamp

    def current_watermark(self) -> int:
        """Return the watermark at the arrival of the record."""
        return self.watermark

    def current_processing_time(self) -> int:
        """Return the processing time of the epoch."""
        return self.processing_time


class BucketAssigner(ABC):
    """Chooses the bucket of a record: a path below the sink's path, '' for that path itself. Subclass it for your own rule."""

    get_java_object = AbsentMember(JAVA_OBJECT)

    @abstractmethod
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the bucket of a record, as str."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return an assigner that writes all records into the sink's path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Return an assigner of buckets by processing time, by default one for each hour.

        `format_str` is a pattern of Java's DateTimeFormatter, which may contain y M d H h m s S a E D and text in single quotes.
        `timezone_id` is a name such as 'Europe/Berlin', None for the machine's zone. Raises InvalidArgumentError if
        one is no str, and InvalidProgramError for an unsupported pattern or an unknown zone.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)


@dataclass(frozen=True, slots=True)
class BasePathBucketAssigner(BucketAssigner):
    """Uses a single bucket, the sink's path."""

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return ""


@dataclass(frozen=True)
class DateTimeBucketAssigner(BucketAssigner):
    """Uses a bucket for each period of processing time, such as an hour."""

    format_str: str = "yyyy-MM-dd--HH"
    timezone_id: str | None = None

    def __post_init__(self) -> None:
        java_date_format(self.format_str)
        _zone(self.timezone_id)

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return format_time(context.processing_time, self.format_str, self.timezone_id)


def _zone(timezone_id: str | None) -> datetime.tzinfo | None:
    if timezone_id is None:
        return None
    text_of("timezone_id", timezone_id, empty=True)
    offset = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", timezone_id)
    if offset:
        sign, hours, minutes = offset.groups()
        delta = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
        if delta <= datetime.timedelta(hours=18):
            return datetime.timezone(-delta if sign == "-" else delta)
    try:
        return datetime.UTC if timezone_id == "Z" else zoneinfo.ZoneInfo(timezone_id)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidProgramError(
            f"timezone_id {timezone_id!r} is not known", hint="for example 'UTC', 'Europe/Berlin', 'GMT-08:00'."
        ) from error


#: The directive of strftime for repeated letters of Java's DateTimeFormatter; `format_time` cuts the digits of %f.
_DIRECTIVES: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "y": "%-Y",
    "uuuu": "%Y",
    "uu": "%y",
    "u": "%-Y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "a": "%p",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "S": "%1f",
    "SS": "%2f",
    "SSS": "%3f",
}


@lru_cache(maxsize=64)
def java_date_format(pattern: str) -> tuple[str, ...]:
    """Return the parts of a Java date pattern: directives of strftime, and text with a leading quote.

    >>> java_date_format("yyyy'T'HH")
    ('%Y', "'T", '%H')
    """
    text_of("format_str", pattern)
    parts: list[str] = []
    for token in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        text = token.group()
        if token.group(1) is not None:
            parts.append("'" + (token.group(1).replace("''", "'") or "'"))
        elif token.group(2):
            if text not in _DIRECTIVES:
                letters = " ".join(dict.fromkeys(letters[0] for letters in _DIRECTIVES))
                raise InvalidProgramError(
                    f"format_str {pattern!r}: {text!r} is not supported", hint=f"use {letters}, or put text into single quotes."
                )
            parts.append(_DIRECTIVES[text])
        elif text == "'":
            raise InvalidProgramError(f"format_str {pattern!r}: a single quote is not closed")
        else:
            parts.append("'" + text)
    return tuple(parts)


@lru_cache(maxsize=16)  # All records of an epoch have the same processing time.
def format_time(milliseconds: int, pattern: str, timezone_id: str | None) -> str:
    """Format a point in time (milliseconds) by a Java date pattern."""
    time = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
    time = time.replace(microsecond=milliseconds % 1000 * 1000).astimezone(_zone(timezone_id))

    def shown(part: str) -> str:
        if part.startswith("'"):
            return part[1:]
        return f"{time.microsecond:06d}"[: int(part[1])] if part.endswith("f") else time.strftime(part)

    return "".join(map(shown, java_date_format(pattern)))


def check_bucket_id(bucket_id: Any, assigner: BucketAssigner) -> str:
    """Return the bucket's path below the sink's path; raise SinkError if it leads elsewhere or is no str."""
    if isinstance(bucket_id, str) and "\0" not in bucket_id and bucket_id[:1] != "/" and ".." not in bucket_id.split("/"):
        return bucket_id
    raise SinkError(f"{type(assigner).__name__}.get_bucket_id() must return a path below the sink's, as str; got {bucket_id!r}")


# Rolling policies, which decide when a sink closes a part file and begins another one.


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
            int_of(f"{name} of the rolling policy", getattr(self, name), minimum=1)

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


# The names of part files.


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The prefix and suffix of the names of part files.

    >>> OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    OutputFileConfig(part_prefix='out', part_suffix='.txt')
    """

    get_java_object = AbsentMember(JAVA_OBJECT)

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for name in ("part_prefix", "part_suffix"):
            value = getattr(self, name)
            if not isinstance(value, str) or "/" in value or "\0" in value:
                raise InvalidArgumentError(f"{name} of OutputFileConfig must be a str without '/'; got {value!r}")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder with the prefix 'part' and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of names."""
        return self.part_suffix

    class OutputFileConfigBuilder(SettingsBuilder["OutputFileConfig"]):
        """Builder of an OutputFileConfig."""

        def __init__(self) -> None:
            super().__init__(OutputFileConfig())

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix of names."""
            return self._set(part_prefix=prefix)

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix of names, such as '.txt'."""
            return self._set(part_suffix=suffix)

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return self._settings
