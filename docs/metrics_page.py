"""The page of metrics, generated from the catalog and the reporters' settings in the code."""

from __future__ import annotations

from typing import Any, Final

from docs.configuration_page import shown_default
from flinkish.common.config_options import ConfigOption, OptionType
from flinkish.metrics.catalog import CATALOG, Scope
from flinkish.metrics.reporters.reporter_settings import COMMON, OWN, ReporterKind

#: Titles of sections, and the labels of their metrics in Prometheus.
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
        "also `source_subtask_index`",
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

The metrics below have Flink's names in the REST API, on [the web page](web-page.md) and in all reporters. A metric that
flinkish has and Flink does not have is marked `own`. Functions add metrics of their own with `get_metrics_group()`, see
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

Reporters and clients add no counters to a job: they read what the job counts anyway. Subtasks report totals at the end of each
epoch, so metrics change when an epoch ends, about every `execution.epoch.target-duration`.

- **Rates** (`...PerSecond`) are averages over the last 10 seconds, or over the last epoch if that took longer. The job computes
  them, so they do not depend on which clients ask, or how often. While an epoch runs, they are those of the epochs before;
  while a job has nothing to do, they fall to 0.
- **Busy, back-pressured, idle** are shares of a subtask's time, together 1000 ms/s. A subtask is busy while its code runs. It
  is back-pressured while a *busier* task downstream runs, as long as a source before it has more to read. A source with more to
  read also waits for a busier task that it does not feed, because all sources share one credit. If the client of
  `execute_and_collect()` does not take the results, all tasks are back-pressured. All other time is idle: waiting for records,
  or the engine's own time. To find the bottleneck, follow the back-pressured tasks downstream: the first busy task after them
  is the bottleneck. If one of its subtasks is far busier than the others, the keys are skewed.
- **Records of operators** are counted at the ends of a chain, because counting within it would cost time for each record.
  Within a chain they are known as long as each operator emits one record for each input record (`map`, assigned watermarks).
  Around a `filter` or `flat_map` in the middle of a chain, they are not reported; with `disable_chaining()` they are.
- **Costs.** With all reporters on, a scrape each second and latencies every 100 ms, the keyed count keeps at least 97 % of its
  speed (`make bench ARGS='--only metrics'`).
- **User metrics** have one series for each subtask. Where REST and `get_accumulators()` combine them, numbers and rates are
  added, and distributions are merged: counts and sums are added, and the smallest and the largest value of all are kept.
  `operator_id` distinguishes operators that have the same name. As in Flink, `add_group(key, value)` makes the label `key` in
  Prometheus and OpenTelemetry, and the name contains only the key; in REST, the log and the history table the name contains
  both.
- **Latency** (`metrics.latency.interval`) corresponds to Flink's latency markers. For each marker, it is the time that the
  marker would wait at the source for the next epoch, plus the time from the epoch's command until the operator's subtask has
  finished the epoch. That is an upper bound for the epoch's records. Epochs in which the source read nothing do not count, and
  a marker does not wait while the job has nothing to do. Time that records spent outside of the job, for example in Kafka, is
  not included; `pendingRecords` shows that backlog. The clocks of all machines must agree.

Spark's UI shows its jobs and stages as `JOB NAME: epoch N of attempt M`, by which you can find them in the log. The rates
of its tab Structured Streaming count rows inside flinkish, not your records.

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
            f"## {title}\n\nNames in Prometheus: `flink_{scope.value}_NAME`. Labels: {labels}.\n\n"
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

`metrics.reporter.NAME.SETTING` configures a reporter; its NAME can be chosen freely. `metrics.reporters` lists the reporters to
use; without it, all configured reporters are used. A setting that a reporter does not have, or a factory that does not exist,
is an error when the job starts. The first job of a process determines the reporters of the process; they report all of its
jobs.

At its end, a job is reported once more, so that the final figures of a job that is shorter than the interval are there. The log
and the history table have that report when `execute()` returns; OpenTelemetry sends it in the background, at the latest before
the process ends. Prometheus asks by itself, so it may miss the last figures.
"""

_ABOUT: Final = {
    ReporterKind.PROMETHEUS: (
        "Serves all metrics at `/metrics`. It is protected as the REST server is: it listens on 127.0.0.1 unless "
        "`rest.bind-address` is set, any other address needs the token (`authorization` in Prometheus' scrape configuration), "
        "and `security.ssl.rest.*` makes it HTTPS. If several jobs run on a machine, each process takes the next free port of "
        "the range. Metrics whose value is text are left out; histograms become summaries."
    ),
    ReporterKind.LOG: "Writes all metrics to the logger `flinkish.metrics`, at the level INFO.",
    ReporterKind.OPEN_TELEMETRY: (
        "Sends all metrics to a collector. It needs the extra `flinkish[otel]`. Names are dotted, such as "
        "`flink.taskmanager.job.task.numRecordsIn`. If the collector cannot be reached, the job is not affected; one warning is "
        "logged."
    ),
    ReporterKind.HISTORY: (
        "Adds rows with the event `metrics` to the Delta table `JOB_ID/history` below `execution.checkpointing.dir`, which "
        "also has the checkpoints and restarts. Its column `details` is JSON: metrics by name. The table keeps the newest "
        "100,000 rows."
    ),
}


def _flags(own: bool, text: bool) -> str:
    return (", own" if own else "") + (", text" if text else "")


def _row(name: str, kind: OptionType[Any], default: Any, description: str) -> str:
    shown = "not set" if default in ([], {}) else shown_default(ConfigOption(name, kind, default))
    return f"| `{name}` | {kind.expected.replace('|', chr(92) + '|')} | {shown} | {description} |"
