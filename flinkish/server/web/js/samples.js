// Metrics over time: the server has the last hour, and each look at a job adds one point, for as long as this tab is open.

import { get, getIfThere } from "./api.js";
import { ENDED } from "./widgets.js";

const MOST_POINTS = 1200;
const TASK_METRICS = [
  "numRecordsInPerSecond",
  "numRecordsOutPerSecond",
  "numBytesOutPerSecond",
  "busyTimeMsPerSecond",
  "backPressuredTimeMsPerSecond",
  "numLateRecordsDropped",
  "currentInputWatermark",
];
/** What an operator's watermark is called, behind the operator's name. */
const WATERMARK = ".currentOutputWatermark";
/** What sources call the number of records that they have not read yet, behind the operator's name. */
const PENDING = ".pendingRecords";
const JOB_METRICS = ["lastCheckpointDuration", "lastCheckpointSize", "numRestarts"];

const series = new Map();
/** Names of further metrics by vertex; names of an operator's metrics begin with the operator's name. */
const names = new Map();

/** Return the points [[time, value], ...] of one series. */
export const points = (...key) => series.get(key.join("\n")) ?? [];

function keep(at, value, ...key) {
  const name = key.join("\n");
  const kept = series.get(name) ?? [];
  if (!series.has(name)) series.set(name, kept);
  if (!Number.isFinite(value) || kept.at(-1)?.[0] >= at) return;
  kept.push([at, value]);
  if (kept.length > MOST_POINTS) kept.shift();
}

/** Begin the series of a job with the values that the server has kept. */
async function loadHistory(path, job) {
  if (series.has(job.jid)) return;
  series.set(job.jid, []);
  const history = await getIfThere(`${path}/metrics/history`);
  for (const { vertex, metric, aggregation, values } of history?.series ?? []) {
    values.forEach((value, index) => value !== null && keep(history.times[index], value, job.jid, vertex ?? "job", metric, aggregation));
  }
}

const vertexPath = (path, vertex) => `${path}/vertices/${vertex}`;

/** Return the names of all numeric metrics of a vertex, asked for once a minute. */
export async function metricNames(path, vertex, now = Date.now()) {
  const key = `${path}/${vertex}`;
  const known = names.get(key);
  // A vertex that has just started does not have all of them yet.
  const complete = known?.found.some((name) => name.endsWith(WATERMARK));
  if (known && now - known.at < (complete ? 60_000 : 3_000)) return known.found;
  const found = (await get(`${vertexPath(path, vertex)}/subtasks/metrics`)).map(({ id }) => id).sort();
  names.set(key, { at: now, found });
  return found;
}

/** Metrics that a reader has added to the plots, by vertex; kept in this tab. */
const chosenKey = (job, vertex) => `flinkish.metrics.${job}.${vertex}`;
export const chosen = (job, vertex) => JSON.parse(sessionStorage.getItem(chosenKey(job, vertex)) ?? "[]");
export const choose = (job, vertex, list) => sessionStorage.setItem(chosenKey(job, vertex), JSON.stringify(list));

/** Look at the metrics of all vertices; return Map(vertex id -> Map(metric -> {min, max, avg, sum})). */
export async function sampleJob(path, job) {
  await loadHistory(path, job);
  const found = await Promise.all(
    job.vertices.map(async ({ id }) => {
      const all = await metricNames(path, id);
      const marks = all.filter((name) => name.endsWith(WATERMARK));
      const pending = all.filter((name) => name.endsWith(PENDING));
      const wanted = [...new Set([...TASK_METRICS, ...marks, ...pending, ...chosen(job.jid, id)])];
      const list = await get(`${vertexPath(path, id)}/subtasks/metrics?get=${wanted.map(encodeURIComponent).join(",")}`);
      const metrics = new Map(list.map(({ id: name, ...values }) => [name, values]));
      // The watermark of a vertex is the least one of its subtasks. A source has no input, so the watermark that it sends counts;
      // its operators before the one that makes watermarks have none.
      const least = (name) => metrics.get(name)?.min ?? -Infinity;
      const own = metrics.get("currentInputWatermark") ?? metrics.get(marks.reduce((a, b) => (least(b) > least(a) ? b : a), marks[0]));
      if (own) metrics.set("watermark", own);
      if (metrics.has(pending[0])) metrics.set("pendingRecords", metrics.get(pending[0]));
      return [id, metrics];
    }),
  );
  const own = await get(`${path}/metrics?get=${JOB_METRICS.join(",")}`);
  if (!ENDED.has(job.state)) {
    for (const [vertex, metrics] of found) {
      for (const [name, values] of metrics) {
        for (const kind of ["min", "max", "avg", "sum"]) keep(job.now, values[kind], job.jid, vertex, name, kind);
      }
    }
    for (const { id, value } of own) keep(job.now, Number(value) < 0 ? NaN : Number(value), job.jid, "job", id, "max");
  }
  return new Map(found);
}
