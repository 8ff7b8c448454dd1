"""The page of metrics, generated from the catalog and the reporters' settings in the code."""

from __future__ import annotations

from typing import Any, Final

from docs.configuration_page import shown_default
from flinkish.common.config_options import ConfigOption, OptionType
from flinkish.metrics.catalog import CATALOG, Scope
from flinkish.metrics.reporters.settings import COMMON, OWN, ReporterKind

#: Titles of sections, with what the prefix in Prometheus and the labels are.
SCOPES: Final = {
    Scope.SERVER: ("Process", "`host`"),
    Scope.JOB: ("Job", "`host`, `job_id`, `job_name`"),
    Scope.TASK: (
        "Task: each subtask of a vertex",
        "those of the job, and `tm_id`, `task_id`, `task_name`, `task_attempt_id`, `task_attempt_num`, `subtask_index`",
    ),
    Scope.OPERATOR: ("Operator: each subtask of an operator", "those of the task, and `operator_id`, `operator_name`"),
    Scope.LATENCY: (
        "Latency",
        "those of the job, and `tm_id`, `source_id`, `operator_id`, `operator_subtask_index`; with the granularity `subtask` "
        "also "
        "`source_subtask_index`",
    ),
}

_NAMES: Final = {
    ReporterKind.PROMETHEUS: "Prometheus",
    ReporterKind.LOG: "Log",
    ReporterKind.OPEN_TELEMETRY: "OpenTelemetry",
    ReporterKind.HISTORY: "History table",
}

_INTRODUCTION: Final = """\
# Metrics

A job has the metrics below by Flink's names, wherever you look: in the [REST API](configuration.md#server) and on its page, and
in the reporters. What flinkish has and Flink has not is marked `own`. Functions add their own with `get_metrics_group()`, see
[Operators](operators/index.md).

```yaml
metrics:
  reporters: prom
  reporter:
    prom:
      factory.class: org.apache.flink.metrics.prometheus.PrometheusReporterFactory
      port: 9250-9260
```

## How they are measured

Nothing is counted for reporters or clients that the job does not count anyway. Subtasks report totals at the end of each epoch,
so a metric changes when an epoch ends; `execution.epoch.target-duration` is how often that is.

- **Rates** (`...PerSecond`) are kept by the job: averages over the last 10 seconds, or over the last epoch if that took longer.
  They do not depend on who asks, or how often. While an epoch runs, they are those of the epochs before; while a job has nothing
  to do, they sink to 0.
- **Busy, back-pressured, idle** are shares of a subtask's time, together 1000 ms/s. A subtask is busy while its code runs. It is
  back-pressured while a *busier* task downstream runs, as long as a source before it has more to read. A source with more to read
  also waits for a busier task that it does not feed, because all sources have one credit. If the client of
  `execute_and_collect()` does not take the results, all tasks are back-pressured. All other time is idle: waiting for records, or
  the engine's own time.
  So look for the end of the back-pressured tasks: the first busy task behind them is the bottleneck. If one of its subtasks is
  far busier than the others, a key is skewed.
- **Records of operators** are counted at the ends of a chain, because counting inside of it would cost time for each record.
  Inside, they are known as long as one record comes out for each that goes in (`map`, assigned watermarks). Behind and before a
  `filter` or `flat_map` in the middle of a chain they are missing, not wrong; `disable_chaining()` shows them.
- **Costs.** All reporters on, a scrape each second and latencies every 100 ms: the keyed count keeps at least 97 % of its speed
  (`make bench ARGS='--only metrics'`).
- **User metrics** of subtasks have a series each. Where REST and `get_accumulators()` combine them, numbers and rates are added,
  and distributions merged: count and sum added, the smallest and the largest value. Operators with one name are told apart by
  `operator_id`. In Flink, `add_group(key, value)` makes a label of Prometheus; here both are part of the name.
- **Latency** (`metrics.latency.interval`) is that of Flink's markers: for each marker, the time that it would wait at the source
  for the next epoch, plus the time from the epoch's command until the operator's subtask has done its work in that epoch. That
  is an upper bound for the epoch's records. Epochs in which the source read nothing do not count, and a marker does not wait
  while the job has nothing to do. Time that records spent outside of the job, such as in Kafka, is not part of it:
  `pendingRecords` shows that. Clocks of different machines must agree.

Spark's UI shows its jobs and stages as `JOB NAME: epoch N of attempt M`, so they can be matched with the log.

## Grafana

`conf/grafana/flinkish.json` is a dashboard for a Prometheus data source: throughput, back pressure, watermarks, checkpoints,
latency.
"""


def markdown() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for scope, (title, labels) in SCOPES.items():
        rows = "\n".join(
            f"| `{info.name}` | {info.kind.value}{_flags(info.own, info.text)} | {info.unit} | {info.description} |"
            for info in CATALOG.values()
            if info.scope is scope
        )
        parts.append(
            f"## {title}\n\nIn Prometheus `flink_{scope.value}_NAME`, with the labels {labels}.\n\n"
            f"| metric | kind | unit | meaning |\n|---|---|---|---|\n{rows}\n"
        )
    parts.append(_REPORTERS)
    for kind, settings in OWN.items():
        rows = "\n".join(_row(name, *each) for name, each in {**settings, **COMMON}.items())
        parts.append(
            f"### {_NAMES[kind]}\n\n`factory.class: {kind.value}`\n\n{_ABOUT[kind]}\n\n"
            f"| setting | value | default | what it does |\n|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


_REPORTERS: Final = """\
## Reporters

`metrics.reporter.NAME.SETTING` configures a reporter of any name. `metrics.reporters` lists those to use; without it, all that
are configured are used. A setting that a reporter does not have, and a factory that does not exist, are errors at the start of
the job. The reporters of a process are those of its first job, and show all of its jobs.
"""

_ABOUT: Final = {
    ReporterKind.PROMETHEUS: (
        "Answers at `/metrics`. It is guarded as the REST server is: it listens on 127.0.0.1 unless `rest.bind-address` says "
        "otherwise, any other address needs the token (`authorization` in Prometheus' scrape configuration), and "
        "`security.ssl.rest.*` makes it HTTPS. With several jobs on a machine, each process takes the next free port of the "
        "range. "
        "Texts are left out; histograms are summaries."
    ),
    ReporterKind.LOG: "Writes all metrics to the logger `flinkish.metrics`, at the level INFO.",
    ReporterKind.OPEN_TELEMETRY: (
        "Sends all metrics to a collector. It needs the extra `flinkish[otel]`. Names are dotted, such as "
        "`flink.taskmanager.job.task.numRecordsIn`. A collector that is away does not affect the job: one warning tells of it."
    ),
    ReporterKind.HISTORY: (
        "Adds rows with the event `metrics` to the Delta table `JOB_ID/history` below `execution.checkpointing.dir`, which "
        "also has "
        "the checkpoints and restarts. Its column `details` is JSON: metrics by name. The table keeps the newest 100,000 rows."
    ),
}


def _flags(own: bool, text: bool) -> str:
    return (", own" if own else "") + (", text" if text else "")


def _row(name: str, kind: OptionType[Any], default: Any, description: str) -> str:
    shown = "not set" if default in ([], {}) else shown_default(ConfigOption(name, kind, default))
    return f"| `{name}` | {kind.expected.replace('|', chr(92) + '|')} | {shown} | {description} |"
