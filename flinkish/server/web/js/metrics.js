// Metrics over time: of the job, of each vertex, and metrics that a reader adds.

import { h } from "./dom.js";
import { bytes, chainText, count, duration, percent, watermark } from "./format.js";
import { plot } from "./plot.js";
import { choose, chosen, metricNames, points } from "./samples.js";
import { ENDED, section } from "./widgets.js";

const SHOWN = "The plots begin with the last hour, which the server keeps. Plots of metrics that you add begin when you add them.";

export function metricsTab(path) {
  return {
    load: async (job) => new Map(await Promise.all(job.vertices.map(async ({ id }) => [id, await metricNames(path, id)]))),
    render: (names, page) => [
      h("p.muted", { "data-key": "note" }, ENDED.has(page.job.state) ? `${SHOWN} This job has ended, so nothing is added to them any more.` : SHOWN),
      section(
        "Job",
        h(
          "div.plots",
          null,
          plot("Duration of the last checkpoint", [line("duration", page, "job", "lastCheckpointDuration", "max")], duration, page.redraw),
          plot("Size of the last checkpoint", [line("size", page, "job", "lastCheckpointSize", "max")], bytes, page.redraw),
          plot("Restarts", [line("restarts", page, "job", "numRestarts", "max")], count, page.redraw),
        ),
      ),
      page.job.plan.nodes.toReversed().map((node) => vertexPlots(node, names.get(node.id) ?? [], page)),
    ],
  };
}

const line = (name, { job }, vertex, metric, kind) => ({ name, points: points(job.jid, vertex, metric, kind) });

function vertexPlots(node, names, page) {
  const { job, redraw, reload } = page;
  const own = (name, metric, kind) => line(name, page, node.id, metric, kind);
  const share = ({ name, points: list }) => ({ name, points: list.map(([at, value]) => [at, value / 1000]) });
  const source = (node.inputs ?? []).length === 0;
  const sink = !job.plan.nodes.some(({ inputs }) => (inputs ?? []).some(({ id }) => id === node.id));
  const marks = own("least", "watermark", "min").points.filter(([, value]) => Math.abs(value) < 8e15);
  const any = (metric) => own("", metric, "sum").points.some(([, value]) => value > 0);
  const added = chosen(job.jid, node.id);
  const title = chainText(node);
  const key = (name) => `${node.id} ${name}`;
  return h(
    "section.card",
    { "data-key": node.id },
    h("h2", null, title),
    h(
      "div.plots",
      null,
      plot("Records per second", [(!source || sink) && own("in", "numRecordsInPerSecond", "sum"), !sink && own("out", "numRecordsOutPerSecond", "sum")].filter(Boolean), (value) => count(Math.round(value)), redraw, undefined, key("rate")),
      plot("Time of the busiest subtask", [{ ...share(own("busy", "busyTimeMsPerSecond", "max")), kind: "busy" }, { ...share(own("held back", "backPressuredTimeMsPerSecond", "max")), kind: "held" }], percent, redraw, 1, key("time")),
      !sink && plot("Bytes out per second", [own("bytes", "numBytesOutPerSecond", "sum")], bytes, redraw, undefined, key("bytes")),
      any("numLateRecordsDropped") && plot("Late records dropped", [own("dropped", "numLateRecordsDropped", "sum")], count, redraw, undefined, key("late")),
      own("", "pendingRecords", "sum").points.length > 0 && plot("Records not yet read", [own("pending", "pendingRecords", "sum")], count, redraw, undefined, key("pending")),
      marks.length > 0 && plot("Watermark (UTC)", [{ name: "lowest", points: marks }], watermark, redraw, null, key("mark")),
      added.map((metric) => plot(metric, ["max", "avg", "min"].map((kind) => own(kind, metric, kind)), metric.endsWith("Watermark") ? watermark : count, redraw, undefined, key(metric))),
    ),
    h(
      "div.field.inline",
      { "data-key": "more" },
      h("label", { for: `add-${node.id}` }, "Add a metric"),
      h(
        "select",
        {
          id: `add-${node.id}`,
          onchange: (event) => {
            if (event.target.value) choose(job.jid, node.id, [...added, event.target.value]);
            event.target.value = "";
            reload();
          },
        },
        h("option", { value: "" }, "choose …"),
        names.filter((name) => !added.includes(name)).map((name) => h("option", { value: name, "data-key": name }, name)),
      ),
      added.length > 0 &&
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              choose(job.jid, node.id, []);
              redraw();
            },
          },
          "Remove the added metrics",
        ),
    ),
  );
}
