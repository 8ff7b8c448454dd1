// One vertex of a job: its subtasks, watermarks, back pressure, metrics, accumulators and processes.

import { get } from "./api.js";
import { h } from "./dom.js";
import { bytes, chainText, count, duration, time, watermark, whole } from "./format.js";
import { badge, cellsOf, meterWithNumber, searchField, table, tabs } from "./widgets.js";

const PARTS = {
  subtasks: ["Subtasks", "", subtasks],
  watermarks: ["Watermarks", "/watermarks", watermarks],
  backpressure: ["Back pressure", "/backpressure", backPressure],
  metrics: ["Metrics", null, metrics],
  accumulators: ["Accumulators", "/subtasks/accumulators", accumulators],
  processes: ["Processes", "/taskmanagers", processes],
};
const MOST_METRICS = 150;
/** The text that was typed to find metrics; it outlives the drawing. */
let sought = "";

export async function loadVertex(path, vertex, part) {
  const below = `${path}/vertices/${vertex}`;
  const kind = PARTS[part] ? part : "subtasks";
  if (kind === "metrics") return allMetrics(below);
  return get(`${below}${PARTS[kind][1]}`);
}

export function vertexPanel(inside, page, vertex, part, jobId) {
  const kind = PARTS[part] ? part : "subtasks";
  const node = page.job.plan.nodes.find(({ id }) => id === vertex);
  return h(
    "section.card.panel",
    { "data-key": `panel:${vertex}`, "aria-label": "The selected vertex" },
    h("div.heading", null, h("h2", null, chainText(node)), h("a.close", { href: `#/job/${jobId}/graph` }, "Close")),
    totals(page.samples.get(vertex)),
    tabs("Parts of the vertex", Object.entries(PARTS).map(([key, [text]]) => [key, text, `#/job/${jobId}/graph/${vertex}/${key}`]), kind),
    h("div", { "data-key": `part:${kind}` }, PARTS[kind][2](inside, page)),
  );
}

/** How many records the whole vertex has dropped as late, and has not yet read. */
function totals(metrics) {
  const [late, pending] = ["numLateRecordsDropped", "pendingRecords"].map((name) => metrics?.get(name)?.sum);
  const texts = [late !== undefined && `${whole(late)} late records dropped`, pending !== undefined && `${whole(pending)} records not yet read`].filter(Boolean);
  return texts.length > 0 && h("p.muted", null, texts.join(" · "));
}

const number = (metrics, name) => (metrics[`${name}-complete`] === false ? [undefined, "–"] : [metrics[name], count(metrics[name])]);

function subtasks({ subtasks: all }, { redraw }) {
  return table(
    "Subtasks",
    [["Subtask", "n"], ["State"], ["Attempt", "n"], ["Records in", "n"], ["Records out", "n"], ["Bytes out", "n"], ["Busy", "n"], ["Held back", "n"], ["Started"], ["Duration", "n"], ["Where"]],
    all.map((each) => ({
      key: String(each.subtask),
      ...cellsOf([
        [each.subtask, each.subtask],
        [each.status, badge(each.status)],
        [each.attempt, each.attempt + 1],
        number(each.metrics, "read-records"),
        number(each.metrics, "write-records"),
        [each.metrics["write-bytes"], bytes(each.metrics["write-bytes"])],
        ...["accumulated-busy-time", "accumulated-backpressured-time"].map((name) => [each.metrics[name], duration(each.metrics[name])]),
        [each["start-time"], time(each["start-time"])],
        [each.duration, duration(each.duration)],
        [each.endpoint, each.endpoint],
      ]),
    })),
    undefined,
    redraw,
  );
}

function watermarks(list) {
  const rows = list.map(({ id, value }) => ({ key: id, cells: [id.split(".")[0], watermark(value), value] }));
  return [
    table("Watermarks of the inputs", [["Subtask", "n"], ["Event time (UTC)"], ["Milliseconds", "n"]], rows, "A source has no input, so it receives no watermarks."),
  ];
}

function backPressure(found) {
  if (found.status !== "ok") return h("p.empty", null, "Nothing has been measured yet.");
  return [
    h("p", null, "Back pressure of this vertex: ", h("strong", null, found.backpressureLevel), ". A vertex is held back (back-pressured) while the vertices after it cannot take more records. The busiest of these, or a far busier vertex beside them, is marked as the bottleneck."),
    table(
      "Back pressure",
      [["Subtask", "n"], ["Held back"], ["Busy"], ["Idle"], ["Level"]],
      found.subtasks.map((each) => ({
        key: String(each.subtask),
        cells: [
          each.subtask,
          meterWithNumber("held back", each.ratio, "held"),
          meterWithNumber("busy", each.busyRatio, "busy"),
          meterWithNumber("idle", each.idleRatio, "plain"),
          each.backpressureLevel,
        ],
      })),
    ),
  ];
}

/** Read the values of the metrics whose names contain the typed text. */
async function allMetrics(below) {
  const names = (await get(`${below}/metrics`)).map(({ id }) => id).sort(bySubtask);
  const found = names.filter((name) => name.toLowerCase().includes(sought.toLowerCase()));
  const wanted = found.slice(0, MOST_METRICS);
  const values = wanted.length ? await get(`${below}/metrics?get=${wanted.map(encodeURIComponent).join(",")}`) : [];
  return { total: found.length, values: values.sort((a, b) => bySubtask(a.id, b.id)) };
}

function bySubtask(a, b) {
  const [[first, ...rest], [second, ...more]] = [a.split("."), b.split(".")];
  return rest.join(".").localeCompare(more.join(".")) || Number(first) - Number(second);
}

function metrics({ total, values }, page) {
  const rows = values.map(({ id, value }) => {
    const [subtask, ...name] = id.split(".");
    return { key: id, cells: [name.join("."), subtask, shown(name.at(-1), value)] };
  });
  return [
    searchField("seek", "Find a metric", sought, total > values.length ? `${values.length} of ${total} are shown` : `${total} metrics`, (text) => {
      sought = text;
      page.reload();
    }),
    table("Metrics", [["Metric"], ["Subtask", "n"], ["Value", "n"]], rows, "No metric has this text in its name."),
  ];
}

function shown(name, value) {
  if (name.endsWith("Watermark")) return watermark(value);
  const numeric = Number(value);
  return value !== "" && Number.isFinite(numeric) ? (Number.isInteger(numeric) ? whole(numeric) : String(Math.round(1000 * numeric) / 1000)) : value;
}

function accumulators({ subtasks: all }) {
  const rows = all.flatMap((each) =>
    each["user-accumulators"].map(({ name, type, value }) => ({ key: `${each.subtask}.${name}`, cells: [each.subtask, name, type, value] })),
  );
  return table("Accumulators", [["Subtask", "n"], ["Name"], ["Type"], ["Value", "n"]], rows, "The functions of this vertex define no metrics.");
}

function processes({ taskmanagers }) {
  return table(
    "Processes",
    [["Where"], ["State"], ["Subtasks"], ["Records in", "n"], ["Records out", "n"], ["Started"], ["Duration", "n"]],
    taskmanagers.map((each) => ({
      key: each["taskmanager-id"],
      cells: [
        each.endpoint,
        badge(each.status),
        Object.entries(each["status-counts"]).filter(([, amount]) => amount > 0).map(([state, amount]) => `${amount} ${state.toLowerCase()}`).join(", "),
        number(each.metrics, "read-records"),
        number(each.metrics, "write-records"),
        time(each["start-time"]),
        duration(each.duration),
      ],
    })),
  );
}
