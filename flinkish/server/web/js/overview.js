// All jobs, and the figures of the cluster.

import { get } from "./api.js";
import { h } from "./dom.js";
import { duration, short, time } from "./format.js";
import { ENDED, jobBadge, meter, section, table, tile, troubles } from "./widgets.js";

export function overviewView() {
  return {
    kind: "jobs",
    title: () => "Jobs",
    load: async () => {
      const [cluster, { jobs }] = await Promise.all([get("/overview"), get("/jobs/overview")]);
      return { cluster, jobs };
    },
    render: ({ cluster, jobs }) => {
      const running = jobs.filter((job) => !ENDED.has(job.state)).sort((a, b) => b["start-time"] - a["start-time"]);
      const ended = jobs.filter((job) => ENDED.has(job.state)).sort((a, b) => b["end-time"] - a["end-time"]);
      const [total, free] = [cluster["slots-total"], cluster["slots-available"]];
      return [
        h("h1", { "data-key": "title" }, "Jobs"),
        h(
          "dl.tiles",
          { "data-key": "tiles" },
          tile("Running", cluster["jobs-running"]),
          tile("Finished", cluster["jobs-finished"]),
          tile("Cancelled", cluster["jobs-cancelled"]),
          tile("Failed", h(cluster["jobs-failed"] > 0 ? "span.bad" : "span", null, String(cluster["jobs-failed"]))),
          tile("Task managers", cluster.taskmanagers),
          tile("Slots in use", `${total - free} of ${total}`, meter("Slots in use", total ? (total - free) / total : 0, "plain")),
        ),
        section("Running", jobTable("Running jobs", running, "No job runs.")),
        section("Ended", jobTable("Jobs that have ended", ended, "No job has ended yet.")),
      ];
    },
  };
}

const jobTable = (caption, jobs, empty) =>
  table(
    caption,
    [["Name"], ["State"], ["Started"], ["Duration"], ["Subtasks"], ["Last change"]],
    jobs.map((job) => ({
      key: job.jid,
      cells: [
        [h("a.name", { href: `#/job/${job.jid}`, title: job.name }, short(job.name)), troubles(job)],
        jobBadge(job),
        time(job["start-time"]),
        duration(job.duration),
        tasks(job.tasks),
        time(job["last-modification"]),
      ],
    })),
    empty,
  );

function tasks(counts) {
  const states = Object.entries(counts).filter(([state, number]) => state !== "total" && number > 0);
  return states.map(([state, number]) => `${number} ${state}`).join(", ") || "none";
}
