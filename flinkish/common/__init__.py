"""The public names of pyflink.common, and the modules that all other packages of flinkish build on."""

from flinkish.common.absent import add_getattr
from flinkish.common.completable_future import CompletableFuture as CompletableFuture
from flinkish.common.config_options import ConfigOption as ConfigOption
from flinkish.common.config_options import ConfigOptions as ConfigOptions
from flinkish.common.configuration import Configuration as Configuration
from flinkish.common.execution_config import ExecutionConfig as ExecutionConfig
from flinkish.common.input_dependency_constraint import InputDependencyConstraint as InputDependencyConstraint
from flinkish.common.job_client import JobClient as JobClient
from flinkish.common.job_execution_result import JobExecutionResult as JobExecutionResult
from flinkish.common.job_id import JobID as JobID
from flinkish.common.job_status import JobStatus as JobStatus
from flinkish.common.restart_strategy import RestartStrategies as RestartStrategies
from flinkish.common.restart_strategy import RestartStrategyConfiguration as RestartStrategyConfiguration
from flinkish.common.serialization import ByteArraySchema as ByteArraySchema
from flinkish.common.serialization import DeserializationSchema as DeserializationSchema
from flinkish.common.serialization import Encoder as Encoder
from flinkish.common.serialization import SerializationSchema as SerializationSchema
from flinkish.common.serialization import SimpleStringSchema as SimpleStringSchema
from flinkish.common.serializer import TypeSerializer as TypeSerializer
from flinkish.common.time import Duration as Duration
from flinkish.common.time import Instant as Instant
from flinkish.common.time import Time as Time
from flinkish.common.time import to_epoch_milli as to_epoch_milli
from flinkish.common.typeinfo import TypeInformation as TypeInformation
from flinkish.common.typeinfo import Types as Types
from flinkish.common.types import Row as Row
from flinkish.common.types import RowKind as RowKind
from flinkish.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper as AssignerWithPeriodicWatermarksWrapper
from flinkish.common.watermark_strategy import TimestampAssigner as TimestampAssigner
from flinkish.common.watermark_strategy import WatermarkGenerator as WatermarkGenerator
from flinkish.common.watermark_strategy import WatermarkStrategy as WatermarkStrategy

__all__ = [*sorted(name for name in globals() if name[0].isupper()), "to_epoch_milli"]

add_getattr(
    __name__,
    {
        f"{form.capitalize()}Row{direction}Schema": f"flinkish.datastream.formats.{form}"
        for form in ("avro", "csv", "json")
        for direction in ("Deserialization", "Serialization")
    },
)
