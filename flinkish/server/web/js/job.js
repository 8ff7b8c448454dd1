// One job: its heading, its buttons, and its tabs.

import { get, getIfThere } from "./api.js";
import { checkpointJob, cancelJob, saveJob, stopJob } from "./actions.js";
import { checkpointsTab } from "./checkpoints.js";
import { configurationTab } from "./configuration.js";
import { h } from "./dom.js";
import { exceptionsTab } from "./exceptions.js";
import { duration, short, time } from "./format.js";
import { graphTab } from "./graph.js";
import { metricsTab } from "./metrics.js";
import { sampleJob } from "./samples.js";
import { timelineTab } from "./timeline.js";
import { ENDED, jobBadge, tabs, troubles } from "./widgets.js";

export const TABS = {
  graph: ["Graph", graphTab],
  checkpoints: ["Checkpoints", checkpointsTab],
  exceptions: ["Exceptions", exceptionsTab],
  metrics: ["Metrics", metricsTab],
  timeline: ["Timeline", timelineTab],
  configuration: ["Configuration", configurationTab],
};

/** A tab has load(job) -> data and render(data, page); both get the job's details, and its samples are kept in any tab. */
export function jobView(id, name, rest) {
  const path = `/jobs/${encodeURIComponent(id)}`;
  const tab = TABS[name][1](path, rest, id);
  return {
    kind: "job",
    keep: id,
    shape: [name, ...rest].join("/"),
    title: (data) => (data ? `${short(data.job.name)}: ${TABS[name][0]}` : TABS[name][0]),
    load: async () => {
      const job = await get(path);
      const [samples, inside] = await Promise.all([sampleJob(path, job), tab.load(job)]);
      return { job, samples, inside };
    },
    render: ({ job, samples, inside }, page) => [
      heading(path, job, page),
      tabs(
        "Parts of the job",
        Object.entries(TABS).map(([key, [text]]) => [key, text, `#/job/${id}/${key}`]),
        name,
      ),
      h("div.tab", { "data-key": `tab:${name}` }, tab.render(inside, { ...page, job, samples })),
    ],
  };
}

function heading(path, job, page) {
  const ended = ENDED.has(job.state);
  const button = (text, onclick, kind = "") => h("button", { type: "button", class: kind, onclick, "data-key": text }, text);
  return h(
    "div.heading",
    { "data-key": "heading" },
    h(
      "div",
      null,
      h("h1", null, h("span", { title: job.name }, short(job.name)), " ", jobBadge(job)),
      h(
        "p.muted",
        null,
        h("code", null, job.jid),
        ` · started ${time(job["start-time"])} · `,
        ended ? `ended ${time(job["end-time"])} after ${duration(job.duration)}` : `running for ${duration(job.duration)}`,
        " · ",
        h("a", { href: "#/logs", onclick: (event) => openLog(event, path) }, "log"),
      ),
      job.restarts && h("p.troubles-line", null, h("a", { href: `#/job/${job.jid}/exceptions` }, troubles(job))),
    ),
    !ended &&
      h(
        "div.buttons",
        { role: "group", "aria-label": "Actions" },
        button("Checkpoint", () => checkpointJob(path, job)),
        button("Savepoint …", () => saveJob(path, job)),
        page.config.features["web-cancel"] && button("Stop …", () => stopJob(path, job, page)),
        page.config.features["web-cancel"] && button("Cancel …", () => cancelJob(path, job, page), "danger"),
      ),
  );
}

/** Open the log of the job's driver, which only the server can name. */
async function openLog(event, path) {
  event.preventDefault();
  const found = await getIfThere(`${path}/jobmanager/log-url`).catch(() => null);
  location.hash = found ? new URL(found.url).hash : "#/logs";
}
