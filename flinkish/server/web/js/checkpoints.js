// Checkpoints: how many, how large, how long; each with what its subtasks took; and how they are set up.

import { get, getIfThere } from "./api.js";
import { h } from "./dom.js";
import { bytes, duration, time } from "./format.js";
import { badge, facts, section, table, tile } from "./widgets.js";

/** Bars that a narrow window has room for. */
const MOST_BARS = 60;

export function checkpointsTab(path, [chosen], jobId) {
  const id = /^\d{1,18}$/.test(chosen ?? "") ? chosen : null;
  /** One that is complete, or gone, is not asked for again: the history forgets it, the reader may not have read it yet. */
  let known;
  return {
    load: async () => {
      const [all, config] = await Promise.all([get(`${path}/checkpoints`), getIfThere(`${path}/checkpoints/config`)]);
      if (id !== null && (known === undefined || known?.found.status === "IN_PROGRESS")) known = await details(path, id);
      return { all, config, details: known };
    },
    render: ({ all, config, details: found }, { job }) => [
      h(
        "dl.tiles",
        { "data-key": "tiles" },
        tile("Completed", all.counts.completed),
        tile("In progress", all.counts.in_progress),
        tile("Failed", h(all.counts.failed > 0 ? "span.bad" : "span", null, String(all.counts.failed))),
        tile("Restored", all.counts.restored),
        tile("Last duration", all.latest.completed ? duration(all.latest.completed.end_to_end_duration) : "–"),
        tile("Last size", all.latest.completed ? bytes(all.latest.completed.state_size) : "–"),
      ),
      id && (found ? one(found, job, jobId) : h("p.empty", { "data-key": "gone" }, `Checkpoint ${id} is no longer in the history.`)),
      section("History", history(all.history, jobId)),
      section("Latest", latest(all.latest)),
      section("Summary of the history", summary(all.summary)),
      config && section("Settings", settings(config)),
    ],
  };
}

async function details(path, id) {
  const found = await getIfThere(`${path}/checkpoints/details/${id}`);
  if (!found) return null;
  const tasks = await Promise.all(
    Object.keys(found.tasks).map(async (vertex) => [vertex, await getIfThere(`${path}/checkpoints/details/${id}/subtasks/${vertex}`)]),
  );
  return { found, tasks };
}

const kind = (checkpoint) => (checkpoint.is_savepoint ? "savepoint" : "checkpoint");

const history = (list, jobId) => [
  h("p.muted", { "data-key": "bars" }, bars(list)),
  table(
    "History of checkpoints",
    [["Id", "n"], ["Kind"], ["State"], ["Triggered"], ["Duration", "n"], ["State size", "n"], ["Written", "n"], ["Subtasks", "n"], ["Path or failure"]],
    list.map((each) => ({
      key: String(each.id),
      cells: [
        h("a", { href: `#/job/${jobId}/checkpoints/${each.id}`, "aria-label": `Checkpoint ${each.id}` }, each.id),
        kind(each),
        badge(each.status),
        time(each.trigger_timestamp),
        duration(each.end_to_end_duration),
        bytes(each.state_size),
        bytes(each.checkpointed_size),
        `${each.num_acknowledged_subtasks} of ${each.num_subtasks}`,
        h("span.path", null, each.failure_message ?? each.external_path ?? ""),
      ],
    })),
    "No checkpoint was taken yet.",
  ),
];

/** The durations of the newest of the history as one line of bars, oldest first. */
function bars(list) {
  const done = list
    .filter(({ status }) => status !== "IN_PROGRESS")
    .slice(0, MOST_BARS)
    .reverse();
  const longest = Math.max(1, ...done.map(({ end_to_end_duration: took }) => took));
  return (
    done.length > 1 &&
    h(
      "span.bars",
      { role: "img", "aria-label": `Durations of ${done.length} checkpoints, the longest ${duration(longest)}` },
      done.map((each) =>
        h("span", {
          "data-key": String(each.id),
          class: each.status === "FAILED" ? "bad" : "",
          title: `${kind(each)} ${each.id}: ${duration(each.end_to_end_duration)}, ${bytes(each.state_size)}`,
          style: { height: `${Math.max(4, (100 * each.end_to_end_duration) / longest)}%` },
        }),
      ),
    )
  );
}

function one({ found, tasks }, job, jobId) {
  const names = new Map(job.vertices.map(({ id, name }) => [id, name]));
  return h(
    "section.card.panel",
    { "data-key": `checkpoint:${found.id}` },
    h("div.heading", null, h("h2", null, `${kind(found)[0].toUpperCase()}${kind(found).slice(1)} ${found.id} `, badge(found.status)), h("a.close", { href: `#/job/${jobId}/checkpoints` }, "Close")),
    found.failure_message && h("pre", null, found.failure_message),
    tasks.map(([vertex, stats]) =>
      h(
        "details",
        { open: true, "data-key": vertex },
        h("summary", null, names.get(vertex) ?? vertex),
        stats
          ? table(
              `Subtasks of ${names.get(vertex) ?? vertex}`,
              [["Subtask", "n"], ["State"], ["Acknowledged"], ["Duration", "n"], ["State size", "n"], ["Written", "n"], ["Sync", "n"], ["Async", "n"], ["Alignment", "n"], ["Start delay", "n"]],
              stats.subtasks.map((each) => ({
                key: String(each.index),
                cells: [
                  each.index,
                  badge(each.status),
                  time(each.ack_timestamp),
                  duration(each.end_to_end_duration),
                  bytes(each.state_size),
                  bytes(each.checkpointed_size),
                  duration(each.checkpoint?.sync),
                  duration(each.checkpoint?.async),
                  duration(each.alignment?.duration),
                  duration(each.start_delay),
                ],
              })),
            )
          : h("p.empty", null, "There are no figures of its subtasks."),
      ),
    ),
  );
}

function latest({ completed, savepoint, failed, restored }) {
  const told = (checkpoint) => `${checkpoint.id} at ${time(checkpoint.trigger_timestamp)}, ${duration(checkpoint.end_to_end_duration)}, ${bytes(checkpoint.state_size)}`;
  return facts([
    ["Completed", completed ? [told(completed), h("span.path", null, completed.external_path)] : "none"],
    ["Savepoint", savepoint ? [told(savepoint), h("span.path", null, savepoint.external_path)] : "none"],
    ["Failed", failed ? [`${failed.id} at ${time(failed.failure_timestamp)}`, h("span.path", null, failed.failure_message)] : "none"],
    ["Restored", restored ? [`${restored.id} at ${time(restored.restore_timestamp)}`, h("span.path", null, restored.external_path)] : "none"],
  ]);
}

function summary(found) {
  const row = (name, statistics, shown) => ({
    key: name,
    cells: [name, ...["min", "avg", "p50", "p90", "p99", "max"].map((key) => shown(Number(statistics[key])))],
  });
  return table(
    "Summary",
    [["Figure"], ["Minimum", "n"], ["Average", "n"], ["50 %", "n"], ["90 %", "n"], ["99 %", "n"], ["Maximum", "n"]],
    [row("Duration", found.end_to_end_duration, duration), row("State size", found.state_size, bytes), row("Written", found.checkpointed_size, bytes)],
  );
}

const settings = (config) =>
  facts([
    ["Interval", config.interval > 0 && config.interval < 2 ** 53 ? duration(config.interval) : "off"],
    ["Mode", config.mode.replaceAll("_", " ")],
    ["Timeout", duration(config.timeout)],
    ["Minimum pause", duration(config.min_pause)],
    ["Maximum concurrent", config.max_concurrent],
    ["Tolerable failures in a row", config.tolerable_failed_checkpoints],
    ["State backend", config.state_backend],
    ["Storage", config.checkpoint_storage],
    ["Kept after the job's end", config.externalization.enabled ? (config.externalization.delete_on_cancellation ? "unless it is cancelled" : "yes") : "no"],
    ["Unaligned", config.unaligned_checkpoints ? "yes" : "no"],
  ]);
