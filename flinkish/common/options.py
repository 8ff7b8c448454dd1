"""Every configuration key that flinkish knows: Flink 2.x keys with Flink's defaults, and a few of our own.

Read them with `configuration.get(options.NAME)`. Durations are read as whole milliseconds, amounts of memory as bytes,
and choices as the text listed with the option. A default of None means that the option is not set.

The Flink keys, their defaults and older names were compared with Flink 2.3.0; where a default differs, the description says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from flinkish.common.config_options import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    INT,
    LIST,
    MAP,
    MEMORY,
    STRING,
    ConfigOption,
    OptionType,
    in_range,
    one_of,
)
from flinkish.common.engines import DEFAULT_ENGINE, ENGINES
from flinkish.common.limits import INT_MAX, UPPER_BOUND_MAX_PARALLELISM

T = TypeVar("T")

_SECOND = 1000
_MINUTE = 60 * _SECOND


def _option(key: str, option_type: OptionType[T], default: T, *older: str) -> ConfigOption[T]:
    return ConfigOption(key, option_type, default, fallback_keys=older)


def _unset(key: str, option_type: OptionType[T], *older: str) -> ConfigOption[T | None]:
    return ConfigOption(key, option_type, None, fallback_keys=older)


# Engine and epochs (keys of flinkish).

ENGINE = _option("execution.engine", one_of(*ENGINES), DEFAULT_ENGINE).described(
    f"What runs the job: {' or '.join(f'{name} ({record.runs_in})' for name, record in ENGINES.items())}."
)
EPOCH_TARGET_DURATION = _option("execution.epoch.target-duration", in_range(DURATION, 1), _SECOND).described(
    "How long one micro-batch should take; sources read as many records as fit into this time."
)
EPOCH_MAX_RECORDS = _option("execution.epoch.max-records", in_range(INT, 1), 5_000_000).described(
    "Maximum number of records that one source subtask reads in one micro-batch."
)
EPOCH_MAX_BYTES = _option("execution.epoch.max-bytes", in_range(MEMORY, 1), 64 << 20).described(
    "Approximate limit of the bytes that one slot sends downstream in one micro-batch; sources read fewer records if they are "
    "large."
)
EPOCH_POLL_INTERVAL = _option("execution.epoch.poll-interval", in_range(DURATION, 1), 100).described(
    "How often sources without new data are polled."
)
EPOCH_IDLE_INTERVAL = _option("execution.epoch.idle-interval", in_range(DURATION, 1), 45 * _SECOND).described(
    "Maximum time between two micro-batches of an idle job; keep it below 1 min, after which Spark ends idle Python workers."
)
PROGRESS_INTERVAL = _option("execution.progress.interval", in_range(DURATION, 0), 30 * _SECOND).described(
    "How often a running job logs a line on its progress: records, watermark and what holds it back, last checkpoint; 0 = never."
)
FULL_TRACEBACK = _option("execution.full-traceback", BOOLEAN, False).described(
    "Whether the error of a failed job shows the frames of flinkish, too, not only the program's; set by `flinkish run "
    "--traceback`."
)
SPARK_CLASS_ARCHIVE = _option("execution.spark.class-archive", BOOLEAN, True).described(
    "Whether a Spark session that flinkish starts reads Java's classes from an archive (170 MB) in ~/.cache/flinkish, or below "
    "XDG_CACHE_HOME. The first session writes the archive when it ends; later sessions and their first jobs start sooner."
)
CHECKPOINT_HMAC_KEY_FILE = _unset("security.checkpoint.hmac-key-file", STRING).described(
    "File with the key that signs checkpoints. If not set: ~/.flinkish/checkpoint.key, which is created when first needed."
)

# Pipeline.

PIPELINE_NAME = _unset("pipeline.name", STRING).described("Name of the job.")
DEFAULT_PARALLELISM = _unset("parallelism.default", in_range(INT, 1)).described(
    "Parallelism of operators without one of their own. If not set: the number of cores."
)
MAX_PARALLELISM = _option("pipeline.max-parallelism", in_range(INT, -1, UPPER_BOUND_MAX_PARALLELISM), -1).described(
    "Maximum parallelism, which is the number of key groups; -1 = chosen by the parallelism, at least 128."
)
AUTO_WATERMARK_INTERVAL = _option("pipeline.auto-watermark-interval", in_range(DURATION, 0), 200).described(
    "How often periodic watermarks are emitted; 0 = never."
)
OPERATOR_CHAINING = _option("pipeline.operator-chaining.enabled", BOOLEAN, True, "pipeline.operator-chaining").described(
    "Whether operators are chained."
)
OPERATOR_CHAINING_CHAIN_OPERATORS_WITH_DIFFERENT_MAX_PARALLELISM = _option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", BOOLEAN, True
).described("Whether operators of different max parallelism may be chained.")
AUTO_GENERATE_UIDS = _option("pipeline.auto-generate-uids", BOOLEAN, True).described(
    "Whether operators without a uid get one; if not, a missing uid is an error."
)
OBJECT_REUSE = _option("pipeline.object-reuse", BOOLEAN, False).without_effect(
    "records are never copied between chained operators"
)
CLOSURE_CLEANER_LEVEL = _option(
    "pipeline.closure-cleaner-level", one_of("NONE", "TOP_LEVEL", "RECURSIVE"), "RECURSIVE"
).without_effect("functions are pickled by cloudpickle")
FORCE_AVRO = _option("pipeline.force-avro", BOOLEAN, False).without_effect("records without a declared type are pickled")
FORCE_KRYO = _option("pipeline.force-kryo", BOOLEAN, False).without_effect("records without a declared type are pickled")
GENERIC_TYPES = _option("pipeline.generic-types", BOOLEAN, True).without_effect("records without a declared type are pickled")
GLOBAL_JOB_PARAMETERS = _unset("pipeline.global-job-parameters", MAP).described(
    "Parameters that RuntimeContext.get_job_parameter() reads."
)
CACHED_FILES = _unset("pipeline.cached-files", LIST).described("Files for the tasks, each as 'name:n,path:p[,executable:true]'.")
JARS = _unset("pipeline.jars", LIST).described(
    "Jars for the Spark session that flinkish starts; a session that already runs must have them."
)
CLASSPATHS = _unset("pipeline.classpaths", LIST).described("Like pipeline.jars, for jars and folders that exist on all machines.")

# Execution.

RUNTIME_MODE = _option("execution.runtime-mode", one_of("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING").described(
    "BATCH: sort the input and emit one final result per key, for bounded sources; AUTOMATIC: BATCH if all sources are bounded."
)
SORTED_INPUTS_MEMORY = _option("execution.sorted-inputs.memory", in_range(MEMORY, 1), 128 << 20).described(
    "Batch mode: approximate memory for the records that a subtask of an operator sorts or holds back; more records spill to "
    "disk."
)
SORTED_INPUTS_ENABLED = _option("execution.sorted-inputs.enabled", BOOLEAN, True).described(
    "Batch mode: whether keyed input is sorted; false is refused."
)
BATCH_STATE_BACKEND_ENABLED = _option("execution.batch-state-backend.enabled", BOOLEAN, True).described(
    "Batch mode: whether state is dropped after each key; false is refused."
)
BUFFER_TIMEOUT = _option(
    "execution.buffer-timeout.interval", in_range(DURATION, -1), 100, "execution.buffer-timeout"
).without_effect("records travel with the micro-batch they are read in")
BUFFER_TIMEOUT_ENABLED = _option("execution.buffer-timeout.enabled", BOOLEAN, True).without_effect(
    "records travel with the micro-batch they are read in"
)
TIMERS_AFTER_END = _option("execution.timers.after-end-limit", in_range(INT, 0), 1_000_000).described(
    "How many new timers the timers of a subtask may set after the end of the input, when every timer fires at once. More timers "
    "are an error, as the job would never end."
)
SHARE_PANES = _option("execution.windows.share-panes", BOOLEAN, False).described(
    "Declares that the reduce functions of all sliding windows of the job are associative and commutative, and that merge() of "
    "their aggregate functions gives the same result as add() for each record, in any order. Each record is then added once, to "
    "a pane that overlapping windows share, instead of once to each window."
)
DEAD_LETTERS_DIR = _unset("pipeline.dead-letters.dir", STRING).described(
    "Folder, or place in an object store, of a Delta table for records that are lost otherwise: those that a source cannot "
    "decode, which then do not fail the job, and late ones that no side output takes. Rows come with the checkpoints, exactly "
    "once; several jobs may share a table. "
    "An unbounded job must take checkpoints. If not set, undecodable records fail the job and late ones are dropped."
)
JOB_RESULT_ATTACHED = _option("execution.attached", BOOLEAN, False).without_effect("execute() waits, execute_async() does not")

# Checkpoints.

CHECKPOINTING_INTERVAL = _unset("execution.checkpointing.interval", DURATION).described(
    "Time between two checkpoints; there are none if not set or < 1."
)
CHECKPOINTING_INTERVAL_DURING_BACKLOG = _unset("execution.checkpointing.interval-during-backlog", DURATION).without_effect(
    "no source of flinkish reports a backlog"
)
CHECKPOINTING_CONSISTENCY_MODE = _option(
    "execution.checkpointing.mode", one_of("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE"
).described("Guarantee for state after a restore. Both give exactly once: barriers are aligned at no cost.")
CHECKPOINTING_TIMEOUT = _option("execution.checkpointing.timeout", in_range(DURATION, 10), 10 * _MINUTE).described(
    "Time after which a checkpoint that is not complete is aborted."
)
MIN_PAUSE_BETWEEN_CHECKPOINTS = _option("execution.checkpointing.min-pause", in_range(DURATION, 0), 0).described(
    "Minimum time between the end of a checkpoint and the start of the next one."
)
MAX_CONCURRENT_CHECKPOINTS = _option("execution.checkpointing.max-concurrent-checkpoints", in_range(INT, 1), 1).described(
    "Maximum number of checkpoints in progress at the same time."
)
TOLERABLE_FAILURE_NUMBER = _option("execution.checkpointing.tolerable-failed-checkpoints", in_range(INT, -1), 0).described(
    "How many checkpoints in a row may fail before the job fails; -1 = no limit."
)
EXTERNALIZED_CHECKPOINT_RETENTION = _option(
    "execution.checkpointing.externalized-checkpoint-retention",
    one_of("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"),
    "NO_EXTERNALIZED_CHECKPOINTS",
).described("Whether the checkpoints of a job are deleted or retained when it ends.")
CHECKPOINTS_DIRECTORY = _unset(
    "execution.checkpointing.dir", STRING, "state.checkpoints.dir", "state.backend.fs.checkpointdir"
).described("Folder of the checkpoints: a path or URI.")
SAVEPOINT_DIRECTORY = _unset(
    "execution.checkpointing.savepoint-dir", STRING, "state.savepoints.dir", "savepoints.state.backend.fs.dir"
).described("Default folder of savepoints: a path or URI.")
MAX_RETAINED_CHECKPOINTS = _option(
    "execution.checkpointing.num-retained", in_range(INT, 1), 1, "state.checkpoints.num-retained"
).described("How many completed checkpoints are kept.")
CHECKPOINT_STORAGE = _unset(
    "execution.checkpointing.storage", one_of("jobmanager", "filesystem"), "state.checkpoint-storage"
).without_effect("checkpoints are always written to a folder")
ASYNCHRONOUS_CHECKPOINTS = _option("execution.checkpointing.asynchronous", BOOLEAN, True).described(
    "Whether slots on Spark write their state files while later micro-batches run; if not, each micro-batch waits for its files."
)
INCREMENTAL_CHECKPOINTS = _option("execution.checkpointing.incremental", BOOLEAN, False, "state.backend.incremental").described(
    "Whether a checkpoint writes only the keyed state that changed since the last one, and shares files with it for the rest."
)
SNAPSHOT_COMPRESSION = _option("execution.checkpointing.snapshot-compression", BOOLEAN, False).without_effect(
    "state files are always compressed Parquet"
)
_UNALIGNED = "all records of a micro-batch arrive before its barrier, so no record is overtaken"
ENABLE_UNALIGNED = _option(
    "execution.checkpointing.unaligned.enabled", BOOLEAN, False, "execution.checkpointing.unaligned"
).without_effect(_UNALIGNED)
FORCE_UNALIGNED = _option("execution.checkpointing.unaligned.forced", BOOLEAN, False).without_effect(_UNALIGNED)
ALIGNED_CHECKPOINT_TIMEOUT = _option(
    "execution.checkpointing.aligned-checkpoint-timeout", in_range(DURATION, 0), 0, "execution.checkpointing.alignment-timeout"
).without_effect(_UNALIGNED)
ENABLE_CHECKPOINTS_AFTER_TASKS_FINISH = _option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    BOOLEAN,
    True,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
).without_effect("checkpoints always go on after some tasks have finished")
FS_SMALL_FILE_THRESHOLD = _option(
    "execution.checkpointing.data-inline-threshold",
    in_range(MEMORY, 0),
    20 * 1024,
    "state.storage.fs.memory-threshold",
    "state.backend.fs.memory-threshold",
).without_effect("state files are never inlined")
FS_WRITE_BUFFER_SIZE = _option(
    "execution.checkpointing.write-buffer-size",
    INT,
    4096,
    "state.storage.fs.write-buffer-size",
    "state.backend.fs.write-buffer-size",
).without_effect("state files are written as a whole")

# State and recovery.

STATE_BACKEND = _option("state.backend.type", one_of("hashmap", "rocksdb"), "hashmap", "state.backend").described(
    "Where keyed state is kept while the job runs: on the heap of the slots' processes, or on disk. In batch mode always on the "
    "heap."
)
ROCKSDB_MEMORY = _option("state.backend.rocksdb.memory.fixed-per-slot", in_range(MEMORY, 8 << 20), 128 << 20).described(
    "Backend rocksdb: memory of a slot for blocks of its files, and for rows that are not in a file yet."
)
ENABLE_STATE_CHANGE_LOG = _unset("state.changelog.enabled", BOOLEAN, "state.backend.changelog.enabled").without_effect(
    "state is always kept as a change log on Spark"
)
SAVEPOINT_PATH = _unset("execution.state-recovery.path", STRING, "execution.savepoint.path").described(
    "Checkpoint or savepoint to start from: a path, followed by @id or #id to choose one of several checkpoints."
)
SAVEPOINT_IGNORE_UNCLAIMED_STATE = _option(
    "execution.state-recovery.ignore-unclaimed-state", BOOLEAN, False, "execution.savepoint.ignore-unclaimed-state"
).described("Whether state of operators that the program no longer has may be dropped.")
SAVEPOINT_ALLOW_UNTRUSTED = _option("execution.state-recovery.allow-untrusted", BOOLEAN, False).described(
    "Whether to start from a checkpoint of `execution.state-recovery.path` that was signed with another key: its pickles are not "
    "decoded, and its pending sink commits are neither committed nor aborted."
)
CLASS_ALIASES = _unset("execution.state-recovery.class-aliases", MAP).described(
    "New full names of classes of pickled state that were renamed or moved, by their old ones: shop.Cart:shop.model.Basket."
)
RESTORE_MODE = _option(
    "execution.state-recovery.claim-mode", one_of("NO_CLAIM", "CLAIM"), "NO_CLAIM", "execution.savepoint-restore-mode"
).without_effect("a job never removes the checkpoint that it was started from")
HA_CLUSTER_ID = _unset("high-availability.cluster-id", STRING).described(
    "Name that identifies a job over its starts: a program started again with the same name resumes from its last completed "
    "checkpoint. If not set, every start is a new job. Flink's default is /default."
)
HA_STORAGE_PATH = _unset("high-availability.storageDir", STRING).described(
    "Folder that records the generations of jobs. If not set: the checkpoint folder."
)
HA_MODE = _unset("high-availability.type", STRING, "high-availability").without_effect(
    "high availability is on if high-availability.cluster-id is set"
)

# Object stores.

S3_ACCESS_KEY = _unset("s3.access-key", STRING, "s3.access.key", "fs.s3a.access.key").described(
    "Id of the access key for s3://. If not set: AWS_ACCESS_KEY_ID, or the role of the machine."
)
S3_SECRET_KEY = _unset("s3.secret-key", STRING, "s3.secret.key", "fs.s3a.secret.key").described(
    "Secret access key for s3://. If not set: AWS_SECRET_ACCESS_KEY, or the role of the machine."
)
S3_SESSION_TOKEN = _unset("s3.session-token", STRING, "s3.session.token", "fs.s3a.session.token").described(
    "Session token, if the access key is a temporary one."
)
S3_ENDPOINT = _unset("s3.endpoint", STRING, "fs.s3a.endpoint").described(
    "Address of a server that is not Amazon's, such as http://minio:9000. If not set: AWS_ENDPOINT_URL."
)
S3_REGION = _unset("s3.region", STRING, "s3.endpoint.region", "fs.s3a.endpoint.region").described(
    "Region of the buckets. If not set: AWS_REGION."
)
S3_PATH_STYLE = _unset("s3.path.style.access", BOOLEAN, "s3.path-style-access", "fs.s3a.path.style.access").described(
    "Whether the bucket is part of the path (true) or of the host's name (false). If not set: of the path, which Amazon and "
    "most servers understand. Flink's default is false."
)

GS_KEY_FILE = _unset(
    "gs.auth.service.account.json.keyfile",
    STRING,
    "fs.gs.auth.service.account.json.keyfile",
    "google.cloud.auth.service.account.json.keyfile",
).described(
    "File with the key of a service account for gs://, on the driver and all executors. If not set: "
    "GOOGLE_APPLICATION_CREDENTIALS, or the account of the machine."
)
AZURE_ACCOUNT_KEY = _unset("fs.azure.account.key", STRING).described(
    "Key of the storage account for abfss://. This and the other keys of abfss:// may end with the account that they are for: "
    "`fs.azure.account.key.<account>.dfs.core.windows.net`. If not set: AZURE_STORAGE_ACCOUNT_KEY, or the machine's identity."
)
AZURE_SAS_TOKEN = _unset("fs.azure.sas.fixed.token", STRING).described("Shared access signature for abfss://, instead of a key.")
AZURE_CLIENT_ID = _unset("fs.azure.account.oauth2.client.id", STRING).described(
    "Service principal for abfss://, instead of a key: its id."
)
AZURE_CLIENT_SECRET = _unset("fs.azure.account.oauth2.client.secret", STRING).described("The secret of the service principal.")
AZURE_CLIENT_ENDPOINT = _unset("fs.azure.account.oauth2.client.endpoint", STRING).described(
    "Where the service principal gets tokens: https://login.microsoftonline.com/<tenant>/oauth2/token."
)

#: Options that may be set for one account alone, by `<key>.<account>.dfs.core.windows.net`.
OF_ACCOUNTS = (AZURE_ACCOUNT_KEY, AZURE_SAS_TOKEN, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_CLIENT_ENDPOINT)

# Restart strategy.

_RESTART_NAMES = dict.fromkeys(("none", "off", "disable", "false"), "none") | {
    name: strategy
    for strategy in ("fixed-delay", "failure-rate", "exponential-delay")
    for name in (strategy, strategy.replace("-", ""))
}


def _parse_restart_strategy(value: Any) -> str:
    # YAML reads a bare `off` as False.
    name = str(value).strip().lower()
    if name not in _RESTART_NAMES:
        raise ValueError(value)
    return _RESTART_NAMES[name]


RESTART_STRATEGY = _unset(
    "restart-strategy.type",
    OptionType("one of none, fixed-delay, failure-rate, exponential-delay", _parse_restart_strategy),
    "restart-strategy",
).described("How a failed job is restarted. If not set: exponential-delay if checkpoints are on, else none.")
RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS = _option("restart-strategy.fixed-delay.attempts", in_range(INT, 0), 1).described(
    "Maximum number of restarts."
)
RESTART_STRATEGY_FIXED_DELAY_DELAY = _option("restart-strategy.fixed-delay.delay", in_range(DURATION, 0), _SECOND).described(
    "Pause before each restart."
)
RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = _option(
    "restart-strategy.failure-rate.max-failures-per-interval", in_range(INT, 1), 1
).described("Maximum number of failures in one interval; with more the job fails.")
RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL = _option(
    "restart-strategy.failure-rate.failure-rate-interval", in_range(DURATION, 1), _MINUTE
).described("Length of the interval in which failures are counted.")
RESTART_STRATEGY_FAILURE_RATE_DELAY = _option("restart-strategy.failure-rate.delay", in_range(DURATION, 0), _SECOND).described(
    "Pause before each restart."
)
RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF = _option(
    "restart-strategy.exponential-delay.initial-backoff", in_range(DURATION, 1), _SECOND
).described("Pause before the first restart.")
RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF = _option(
    "restart-strategy.exponential-delay.max-backoff", in_range(DURATION, 1), _MINUTE
).described("Maximum pause before a restart.")
RESTART_STRATEGY_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = _option(
    "restart-strategy.exponential-delay.backoff-multiplier", in_range(DOUBLE, 1.0), 1.5
).described("Factor by which each pause is longer than the one before.")
RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = _option(
    "restart-strategy.exponential-delay.reset-backoff-threshold", in_range(DURATION, 1), 60 * _MINUTE
).described("Time without a failure after which the pause is reset to the initial one.")
RESTART_STRATEGY_EXPONENTIAL_DELAY_JITTER_FACTOR = _option(
    "restart-strategy.exponential-delay.jitter-factor", in_range(DOUBLE, 0.0, 1.0), 0.1
).described("Random variation of each pause, as a fraction of it: 0.1 = up to 10 percent shorter or longer.")
RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS = _option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff", in_range(INT, 1), INT_MAX
).described("Maximum number of restarts before the pause is reset; the job fails if it needs more.")

# Tasks, metrics, Python.

TASK_CANCELLATION_INTERVAL = _option(
    "task.cancellation.interval", DURATION, 30 * _SECOND, "task.cancellation-interval"
).without_effect("tasks are cancelled at once")
TASK_CANCELLATION_TIMEOUT = _option("task.cancellation.timeout", DURATION, 180 * _SECOND).described(
    "On Spark: how long close() of functions, readers and writers may take at the end of a job before the job fails; 0 = no "
    "limit."
)
METRIC_REPORTERS = _unset("metrics.reporters", STRING).described(
    "Names of the reporters to use, as a list. If not set: all that metrics.reporter.NAME.* configure. The page on metrics lists "
    "their settings."
)
LATENCY_INTERVAL = _option("metrics.latency.interval", DURATION, 0).described(
    "How often the latency from each source to each operator is measured, as by Flink's latency markers; 0 = never. The page on "
    "metrics says how."
)
LATENCY_GRANULARITY = _option("metrics.latency.granularity", one_of("single", "operator", "subtask"), "operator").described(
    "Whether latencies tell sources apart: not at all, by operator, or by subtask."
)
LATENCY_HISTORY_SIZE = _option("metrics.latency.history-size", in_range(INT, 1, 100_000), 128).described(
    "How many latencies each histogram remembers."
)
TMP_DIRS = _unset("io.tmp.dirs", STRING, "taskmanager.tmp.dirs").described(
    "Folder for scratch files of running attempts. If not set: the system's folder for temporary files; on a cluster, the "
    "working folders of the executors."
)
PYTHON_FILES = _unset("python.files", STRING).described(
    "Python files, folders and zips for the tasks' sys.path, separated by commas."
)
PYTHON_REQUIREMENTS = _unset("python.requirements", STRING).described(
    "Requirements file of packages to install for the tasks; with #folder behind it they are installed from that folder only."
)
PYTHON_ARCHIVES = _unset("python.archives", STRING).described(
    "Archives to unpack in the tasks' working folder: 'a.zip,b.zip#target'."
)
PYTHON_EXECUTABLE = _unset("python.executable", STRING).described("Python interpreter of the tasks.")
PYTHON_CLIENT_EXECUTABLE = _unset("python.client.executable", STRING).without_effect(
    "the program runs in the interpreter that was started"
)

# The server.

REST_PORT = _unset("rest.port", in_range(INT, 0, 65_535)).described(
    "Port of the server that answers for the jobs of this process in the form of Flink's REST API; 0 = any that is free. "
    "If neither it nor rest.bind-port is set, there is no server."
)
REST_BIND_PORT = _unset("rest.bind-port", STRING).described(
    "Ports of the server to try: '8081', '50100-50200' or a list of these."
)
REST_ADDRESS = _unset("rest.address", STRING).described("Name under which clients reach the server. If not set: localhost.")
REST_BIND_ADDRESS = _unset("rest.bind-address", STRING).described(
    "Address that the server listens on. If not set: 127.0.0.1; any other that is not a loopback address needs a token."
)
REST_TOKEN = _unset("security.rest.token", STRING).described(
    "The server answers only requests with the header 'Authorization: Bearer TOKEN'. A key of flinkish; the environment variable "
    "FLINKISH_REST_TOKEN sets it without a file."
)
REST_SSL_ENABLED = _option("security.ssl.rest.enabled", BOOLEAN, False).described(
    "Whether the server speaks HTTPS only. Certificates are PEM files, not Java keystores."
)
REST_SSL_KEYSTORE = _unset("security.ssl.rest.keystore", STRING, "security.ssl.keystore").described(
    "PEM file with the server's certificate, those of its issuers behind it, and the private key unless "
    "security.ssl.rest.private-key names another file."
)
REST_SSL_PRIVATE_KEY = _unset("security.ssl.rest.private-key", STRING).described(
    "PEM file with the private key, such as the tls.key of a Kubernetes secret. A key of flinkish."
)
REST_SSL_KEY_PASSWORD = _unset("security.ssl.rest.key-password", STRING, "security.ssl.key-password").described(
    "Password of the private key, if it is encrypted."
)
REST_SSL_TRUSTSTORE = _unset("security.ssl.rest.truststore", STRING, "security.ssl.truststore").described(
    "PEM file with the certificates of authorities; the server trusts the clients, and the command line the servers, that they "
    "vouch for. If not set, the command line trusts the authorities that the machine trusts."
)
REST_SSL_AUTHENTICATION_ENABLED = _option("security.ssl.rest.authentication-enabled", BOOLEAN, False).described(
    "Whether clients need a certificate that security.ssl.rest.truststore vouches for, in addition to the token."
)
SSL_PROTOCOL = _option("security.ssl.protocol", one_of("TLSv1.2", "TLSv1.3"), "TLSv1.2").described(
    "Oldest version of TLS that the server accepts."
)
_JAVA_STORE = "a PEM file needs no password of its own; security.ssl.rest.key-password belongs to the private key"
REST_SSL_KEYSTORE_PASSWORD = _unset(
    "security.ssl.rest.keystore-password", STRING, "security.ssl.keystore-password"
).without_effect(_JAVA_STORE)
REST_SSL_TRUSTSTORE_PASSWORD = _unset(
    "security.ssl.rest.truststore-password", STRING, "security.ssl.truststore-password"
).without_effect(_JAVA_STORE)
WEB_SUBMIT_ENABLE = _option("web.submit.enable", BOOLEAN, True).described(
    "Whether programs can be uploaded to a session cluster and started there."
)
WEB_REFRESH_INTERVAL = _option("web.refresh-interval", DURATION, 3 * _SECOND).described("How often the web page asks for news.")
WEB_CHECKPOINTS_HISTORY = _option("web.checkpoints.history", in_range(INT, 0), 10).described(
    "How many past checkpoints of a job REST and the page show; those that are being taken come in addition."
)
WEB_EXCEPTION_HISTORY_SIZE = _option("web.exception-history-size", in_range(INT, 1), 16).described(
    "How many failures of a job REST and the page show, the last ones."
)
WEB_CANCEL_ENABLE = _option("web.cancel.enable", BOOLEAN, True).described("Whether the web page can cancel jobs.")
JOB_STORE_EXPIRATION_TIME = _option("jobstore.expiration-time", in_range(INT, 0), 3600).described(
    "How long the server answers for a job that has ended, in seconds."
)
JOB_STORE_MAX_CAPACITY = _option("jobstore.max-capacity", INT, INT_MAX).described(
    "Most jobs that have ended for which the server answers."
)

# Session clusters.

HA_LEASE_DURATION = _option("high-availability.lease-duration", in_range(DURATION, _SECOND), 10 * _SECOND).described(
    "How long the record of a session's leading Dispatcher must not change before another one takes over. A key of flinkish."
)
HEARTBEAT_INTERVAL = _option("heartbeat.interval", in_range(DURATION, 100), _SECOND).described(
    "How often the driver of a session's job reports to the Dispatcher. Flink's default is 10 s."
)
HEARTBEAT_TIMEOUT = _option("heartbeat.timeout", in_range(DURATION, _SECOND), 50 * _SECOND).described(
    "How long a driver may be silent before the Dispatcher kills it and starts another one. A driver whose process has ended is "
    "noticed at once."
)
DRIVER_LAUNCHER = _option("session.driver.launcher", one_of("process", "spark-submit"), "process").described(
    "How a session starts the driver of a job: as a Python process, or with spark-submit and the options in "
    "session.driver.spark-submit-options. A key of flinkish."
)
DRIVER_SUBMIT_OPTIONS = _unset("session.driver.spark-submit-options", LIST).described(
    "Options of spark-submit for drivers, such as --master;spark://host:7077; options and values are entries of their own. The "
    "deploy mode is client. A key of flinkish."
)
DRIVER_MAX_RESTARTS = _option("session.driver.max-restarts", in_range(INT, 0), 10).described(
    "How often a job whose driver was lost is started again within session.driver.restart-window; then the job fails. A key of "
    "flinkish."
)
DRIVER_RESTART_WINDOW = _option("session.driver.restart-window", in_range(DURATION, _SECOND), 10 * _MINUTE).described(
    "See session.driver.max-restarts."
)
DRIVER_START_TIMEOUT = _option("session.driver.start-timeout", in_range(DURATION, 0), _MINUTE).described(
    "How long the request that starts a program waits for its job, to answer with the error of a script that fails before. A key "
    "of flinkish."
)
LOG_DIR = _unset("env.log.dir", STRING).described(
    "Folder for the logs and the standard output of a session's drivers. If not set: a folder in io.tmp.dirs."
)


#: All options by their key.
OPTIONS: Mapping[str, ConfigOption[Any]] = MappingProxyType(
    {option.key: option for option in list(globals().values()) if isinstance(option, ConfigOption)}
)

#: Keys of the options that are accepted without effect, with the reason as a clause.
WITHOUT_EFFECT: Mapping[str, str] = {key: option.no_effect for key, option in OPTIONS.items() if option.no_effect is not None}

#: All options by each of their keys, older names included.
OPTIONS_BY_ANY_KEY: Mapping[str, ConfigOption[Any]] = MappingProxyType(
    {older: option for option in OPTIONS.values() for older in option.fallback_keys} | dict(OPTIONS)
)

#: Prefix of the settings of metric reporters, `metrics.reporter.NAME.SETTING`, read by metrics/reporters/reporter_settings.py.
REPORTER_PREFIX = "metrics.reporter."

#: Prefixes of keys that are passed on unchanged: Spark's own settings.
PASSED_ON_PREFIXES = ("spark.",)

#: Prefixes of Flink's keys for its cluster and its JVM, which flinkish does not have; such keys are accepted without effect.
WITHOUT_EFFECT_PREFIXES = (
    "akka.",
    "classloader.",
    "cluster.",
    "env.",
    "execution.async-state.",
    "execution.batch.",
    "execution.batch-",
    "execution.checkpointing.",
    "execution.job-",
    "execution.program-config.",
    "execution.shutdown-",
    "execution.sort",
    "execution.state-recovery.",
    "execution.submit-",
    "execution.target",
    "fs.",
    "high-availability.",
    "historyserver.",
    "jobmanager.",
    "kubernetes.",
    "metrics.",
    "parallelism.",
    "pekko.",
    "pipeline.",
    "plugin.",
    "python.",
    "rest.",
    "slot.",
    "slotmanager.",
    "state.",
    "table.",
    "taskmanager.",
    "web.",
    "yarn.",
    "zookeeper.",
)


def is_of_account(key: str) -> bool:
    """Return whether a key sets one of OF_ACCOUNTS for one account.

    >>> is_of_account("fs.azure.account.key.mine.dfs.core.windows.net"), is_of_account("fs.azure.account.keyprovider.mine")
    (True, False)
    """
    return key.startswith(tuple(f"{option.key}." for option in OF_ACCOUNTS))
