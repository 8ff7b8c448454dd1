"""Warns of settings that have no effect: once per process for each, when a job starts."""

from __future__ import annotations

import logging
import re

from flinkish.common import options
from flinkish.common.config_file import resembling_key
from flinkish.common.config_options import to_text
from flinkish.common.configuration import Configuration

_log = logging.getLogger("flinkish.job")

#: The key of Spark that says where a job runs.
_MASTER = "spark.master"
#: The warnings that have been logged in this process.
_told: set[str] = set()


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
    if configuration.get(options.STATE_BACKEND) == "rocksdb":
        texts.append(f"{options.STATE_BACKEND.key}: rocksdb runs as hashmap so far: state is kept in memory.")
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
