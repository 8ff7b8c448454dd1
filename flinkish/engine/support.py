"""Checks settings before anything runs: refuses those that flinkish or the engine does not support, and warns of useless ones."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys

from flinkish.common import options
from flinkish.common.config_file import resembling_key
from flinkish.common.config_options import to_text
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES
from flinkish.common.errors import ConfigurationError, InvalidProgramError, UnsupportedError
from flinkish.common.paths import location
from flinkish.graph.stream_graph import StreamGraph
from flinkish.graph.stream_graph_generator import is_endless
from flinkish.program.dead_letters import ROW_TYPE
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.operators import SinkConfig, SinkWriterConfig
from flinkish.program.program import Program

_log = logging.getLogger("flinkish.job")

#: The key of Spark that says where a job runs.
_MASTER = "spark.master"
#: The warnings that have been logged in this process.
_told: set[str] = set()


def check_supported(program: Program, mode: RuntimeExecutionMode) -> None:
    """Raise UnsupportedError, naming the setting, for a program with settings that cannot be honoured.

    Raises InvalidProgramError for jars that do not exist.
    """
    _check_jars(program.configuration)
    _check_data_frames(program)
    for option in (options.SORTED_INPUTS_ENABLED, options.BATCH_STATE_BACKEND_ENABLED):
        if mode is RuntimeExecutionMode.BATCH and not program.configuration.get(option):
            raise UnsupportedError(
                f"{option.key} is false: a batch without sorted input would need the state of all keys at once.",
                hint="leave it out, or set execution.runtime-mode to STREAMING.",
            )
    python = program.configuration.get(options.PYTHON_EXECUTABLE)
    engine = ENGINES[program.configuration.get(options.ENGINE)]
    if python is not None and not engine.own_processes:
        found = shutil.which(python)
        if found is None or os.path.abspath(found) != os.path.abspath(sys.executable):
            raise UnsupportedError(
                f"{options.PYTHON_EXECUTABLE.key} (set_python_executable) is {python!r}, but with execution.engine {engine.name} "
                f"the tasks run in this process, which is {sys.executable}.",
                hint="start the program with that interpreter, or set execution.engine to "
                f"{' or '.join(name for name, record in ENGINES.items() if record.own_processes)}.",
            )


def check_commits(program: Program, graph: StreamGraph, configuration: Configuration) -> None:
    """Refuse a job whose output would never be committed: it has a source that never ends, and takes no checkpoints.

    That is so for sinks with a committer, and for the table of dead letters; `configuration` is the one that tasks read. Other
    sinks write as the records come.
    Differs from Flink, where such a FileSink writes files that stay in progress for ever.
    Raises ConfigurationError, which names the sink and the source, and SinkError if the table of dead letters does not fit.
    """
    path = configuration.get(options.DEAD_LETTERS_DIR)
    table = None if path is None else program.dead_letters
    endless = next((node.name for node in graph.nodes.values() if is_endless(node)), None)
    if endless is not None and not configuration.contains(options.CHECKPOINTING_INTERVAL):
        waiting = f"{options.DEAD_LETTERS_DIR.key} = {path!r}" if table is not None else _committing_sink(graph, configuration)
        if waiting is not None:
            raise ConfigurationError(
                f"{waiting} commits with the job's checkpoints, but the job takes none, and the source {endless!r} never ends: "
                "nothing would ever be committed.",
                hint=f"call enable_checkpointing(milliseconds), or set {options.CHECKPOINTING_INTERVAL.key}.",
            )
    if table is not None:
        table.validate(ROW_TYPE)


def _committing_sink(graph: StreamGraph, configuration: Configuration) -> str | None:
    for node in graph.nodes.values():
        if isinstance(node.operator, SinkConfig | SinkWriterConfig):
            committer = node.operator.sink.create_committer(configuration)
            if committer is not None:
                committer.close()
                return f"sink {node.name!r} ({type(node.operator.sink).__name__})"
    return None


def _check_data_frames(program: Program) -> None:
    engine = ENGINES[program.configuration.get(options.ENGINE)]
    if engine.data_frames:
        return
    for transformation in program.transformations.values():
        parts = [getattr(transformation, name, None) for name in ("source", "sink")]
        for part in parts:
            if isinstance(part, NeedsDataFrames):
                able = " or ".join(name for name, record in ENGINES.items() if record.data_frames)
                raise UnsupportedError(
                    f"{transformation.name!r} works with a DataFrame of Spark, which execution.engine {engine.name} does not.",
                    hint=f"set execution.engine to {able}, or {part.instead}.",
                )


def _check_jars(configuration: Configuration) -> None:
    engine = ENGINES[configuration.get(options.ENGINE)]
    for option in (options.JARS, options.CLASSPATHS):
        for url in configuration.get(option) or ():
            place = location(url)
            if not engine.jvm:
                raise UnsupportedError(
                    f"{option.key} (add_jars, add_classpaths) names {url}, but with execution.engine {engine.name} there "
                    "is no JVM.",
                    hint="leave it out; connectors of flinkish need no jars.",
                )
            if place.scheme not in ("", "file"):
                if option is options.CLASSPATHS:
                    raise UnsupportedError(
                        f"{option.key} names {url}: class paths of Spark are of the machines' file systems.",
                        hint=f"use {options.JARS.key} (add_jars), which Spark fetches.",
                    )
            elif not place.is_local or not os.path.exists(place.file):
                raise InvalidProgramError(
                    f"{option.key} names {url}, which is not there.",
                    hint="leave it out if it is a connector of Flink, such as Kafka's: those of flinkish need no jars.",
                )
            elif option is options.JARS and "#" in url:
                raise InvalidProgramError(
                    f"{option.key} names {url}: Spark takes what follows '#' for a name to call it by.",
                    hint="rename the file.",
                )


def warn_of_ineffective(configuration: Configuration) -> None:
    """Log a warning for each setting without effect, once per process.

    Checkpoints without a folder need no warning, because the line about the start of the job mentions that they end with it.
    """
    for text in ineffective(configuration):
        if text not in _told:
            _told.add(text)
            _log.warning("%s", text)


def ineffective(configuration: Configuration) -> list[str]:
    """Return a sentence for each configured setting that has no effect."""
    texts = []
    for key, why in options.WITHOUT_EFFECT.items():
        option = options.OPTIONS[key]
        value = configuration.get(option)
        # `high-availability.type: NONE` is also flinkish's behaviour without the setting.
        if value != option.default and not (option is options.HA_MODE and str(value).upper() == "NONE"):
            texts.append(f"{key}: {to_text(value)} has no effect: {why}.")
    master = configuration.get_string(_MASTER, "")
    if configuration.get(options.ENGINE) == "local" and master and not master.startswith("local"):
        texts.append(f"{_MASTER}: {master} has no effect: with {options.ENGINE.key}: local, the job runs in this process only.")
    for jars in (options.JARS, options.CLASSPATHS):
        names = [url.rpartition("/")[2] for url in configuration.get(jars) or ()]
        texts += [
            f"{jars.key}: {name} has no effect: connectors and formats of flinkish need no jars, and it runs no Java of Flink."
            for name in names
            if name.startswith("flink-")
        ]
    unknown = [key for key in sorted(configuration.key_set()) if _is_of_flink(key)]
    metrics = [key for key in unknown if key.startswith("metrics.")]
    others = [key for key in unknown if key not in metrics]
    if metrics:
        texts.append(_without_effect(metrics, "the names of metrics are Flink's defaults, and nothing else can be set"))
    unlisted = _unlisted_reporters(configuration)
    if unlisted:
        texts.append(_without_effect(unlisted, f"{options.METRIC_REPORTERS.key} does not list these reporters"))
    if others:
        texts.append(_without_effect(others, "flinkish lacks this part of Flink; Spark's cluster manager runs its processes"))
    return texts


def _is_of_flink(key: str) -> bool:
    """Tell whether an unknown key begins like Flink's keys; likely typing errors have been reported before."""
    if (
        key.startswith(options.REPORTER_PREFIX)
        or key in options.OPTIONS_BY_ANY_KEY
        or options.is_of_account(key)
        or not key.startswith(options.WITHOUT_EFFECT_PREFIXES)
    ):
        return False
    return resembling_key(key) is None


def _unlisted_reporters(configuration: Configuration) -> list[str]:
    """Return the settings of reporters that `metrics.reporters` leaves out."""
    listed = configuration.get(options.METRIC_REPORTERS)
    if listed is None:
        return []
    names = {name.strip() for name in re.split("[,;]", listed)}
    keys = sorted(key for key in configuration.key_set() if key.startswith(options.REPORTER_PREFIX))
    return [key for key in keys if key.removeprefix(options.REPORTER_PREFIX).partition(".")[0] not in names]


def _without_effect(keys: list[str], why: str) -> str:
    return f"{', '.join(keys)}: {'these have' if len(keys) > 1 else 'this has'} no effect: {why}."
