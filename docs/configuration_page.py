"""The page of configuration keys, generated from the options in the code."""

from __future__ import annotations

from typing import Any, Final

from flinkish.common import options
from flinkish.common.config_options import DURATION, MEMORY, ConfigOption

#: Titles of sections by prefixes of keys; an option belongs to the section with the longest matching prefix.
SECTIONS: Final = {
    "execution.": "Execution",
    "execution.epoch.": "Epochs",
    "execution.checkpointing.": "Checkpoints",
    "execution.state-recovery.": "Starting from a checkpoint",
    "high-availability.": "Resuming after the process ended",
    "s3.": "Object stores",
    "gs.": "Object stores",
    "fs.azure.": "Object stores",
    "restart-strategy.": "Restarts",
    "state.": "State",
    "parallelism.": "Parallelism",
    "pipeline.": "Pipeline",
    "python.": "Python",
    "security.": "Security",
    "task.": "Tasks",
    "metrics.": "Metrics",
    "rest.": "Server",
    "web.": "Server: the page",
    "jobstore.": "Server: jobs that have ended",
    "session.": "Session clusters",
    "heartbeat.": "Session clusters",
    "env.": "Folders",
    "io.": "Folders",
}

_INTRODUCTION: Final = """\
# Configuration keys

The keys are those of Flink 2.x, with Flink's defaults unless the description says otherwise, and a few keys of flinkish, such as
`execution.engine`, `execution.epoch.*` and `security.checkpoint.*`. Settings come from these places; each overrides those before
it:

1. `conf/config.yaml`, or the folder that `FLINKISH_CONF_DIR` names; nested or flat, both are read;
2. `-Dkey=value`: on the command line of `flinkish run` or of the script, or in `FLINKISH_PROPERTIES`;
3. the `Configuration` given to `StreamExecutionEnvironment.get_execution_environment()` or `env.configure()`;
4. setters such as `env.set_parallelism()` and `env.enable_checkpointing()`.

A warning names each unknown key, and the most similar known one. A malformed value raises an error, which names the key, the
expected form and the origin of the value. Durations are written `10 s`, `5 min`, `PT1M` or as milliseconds; memory `64 mb` or as
bytes; lists `a;b` or `[a, b]`; maps `k1:v1,k2:v2`.

```yaml
execution:
  engine: spark
  checkpointing:
    interval: 10 s
    dir: /var/lib/flinkish/checkpoints
```
"""


def markdown() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    sections: dict[str, list[ConfigOption[Any]]] = {title: [] for title in SECTIONS.values()}
    for option in options.OPTIONS.values():
        sections[_section(option.key)].append(option)
    for title, members in sections.items():
        rows = "\n".join(map(_row, sorted(members, key=lambda option: option.key)))
        parts.append(f"## {title}\n\n| key | value | default | what it does |\n|---|---|---|---|\n{rows}\n")
    passed_on = ", ".join(f"`{prefix}*`" for prefix in options.PASSED_ON_PREFIXES)
    without_effect = ", ".join(f"`{prefix}*`" for prefix in options.WITHOUT_EFFECT_PREFIXES)
    parts.append(
        f"## Other keys\n\nPassed on unchanged: {passed_on}, Spark's own settings.\n\n"
        "Accepted without effect, unless listed above: Flink's keys for its cluster and its JVM, which flinkish does not have: "
        f"{without_effect}.\n\nA job logs a warning that names those that are set. It also logs a warning for each "
        "option above that is `Accepted; without effect` if it is not set to its default.\n"
    )
    return "\n".join(parts)


def _section(key: str) -> str:
    return SECTIONS[max((prefix for prefix in SECTIONS if key.startswith(prefix)), key=len)]


def _row(option: ConfigOption[Any]) -> str:
    names = f"`{option.key}`" + "".join(f"<br>older: `{key}`" for key in option.fallback_keys)
    expected = option.type.expected.replace("|", "\\|")
    return f"| {names} | {expected} | {shown_default(option)} | {option.description} |"


def shown_default(option: ConfigOption[Any]) -> str:
    """Return an option's default as it is written in a configuration file."""
    default = option.default
    if default is None:
        return "not set"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if option.type.expected.startswith(DURATION.expected):
        return f"`{_amount(default, ((3_600_000, 'h'), (60_000, 'min'), (1000, 's'), (1, 'ms')))}`"
    if option.type.expected.startswith(MEMORY.expected):
        return f"`{_amount(default, ((1024**2, 'mb'), (1024, 'kb'), (1, 'bytes')))}`"
    return f"`{default}`"


def _amount(value: int, units: tuple[tuple[int, str], ...]) -> str:
    """Return a number in the largest unit in which it is a whole number."""
    size, unit = next((size, unit) for size, unit in units if value % size == 0 and (value >= size or size == 1))
    return f"{value // size} {unit}"
