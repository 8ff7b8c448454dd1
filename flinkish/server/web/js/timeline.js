// When the job, its vertices and their subtasks entered each state.

import { get } from "./api.js";
import { h } from "./dom.js";
import { chainText, duration, time } from "./format.js";
import { ENDED, section, tone } from "./widgets.js";

export function timelineTab(path) {
  return {
    load: async (job) => new Map(await Promise.all(job.vertices.map(async ({ id }) => [id, await get(`${path}/vertices/${id}/subtasktimes`)]))),
    render: (times, { job }) => {
      const end = ENDED.has(job.state) ? job["end-time"] : job.now;
      const begin = Math.min(job["start-time"], ...Object.values(job.timestamps).filter((at) => at > 0));
      const scale = { begin, end: Math.max(end, begin + 1) };
      return [
        section(
          "Job",
          h("div.lanes", null, lane("States", job.timestamps, scale)),
          h("p.scale-ends", { "aria-hidden": "true" }, h("span", null, time(begin)), h("span", null, duration(scale.end - begin)), h("span", null, time(end))),
        ),
        job.plan.nodes.toReversed().map((node) =>
          h(
            "section.card",
            { "data-key": node.id },
            h("h2", null, chainText(node)),
            h("div.lanes", null, (times.get(node.id)?.subtasks ?? []).map((subtask) => lane(`Subtask ${subtask.subtask}`, subtask.timestamps, scale))),
          ),
        ),
      ];
    },
  };
}

/** One bar for each state, from its begin to the begin of the next one. */
function lane(name, timestamps, { begin, end }) {
  const entered = Object.entries(timestamps)
    .filter(([, at]) => at > 0)
    .sort((a, b) => a[1] - b[1]);
  const spans = entered.map(([state, at], index) => {
    const last = ENDED.has(state) ? at : end;
    return { state, at, until: Math.max(at, entered[index + 1]?.[1] ?? last) };
  });
  const left = (at) => (100 * (Math.max(begin, Math.min(end, at)) - begin)) / (end - begin);
  return h(
    "div.lane",
    { "data-key": name },
    h("span.name", null, name),
    h(
      "span.track",
      null,
      spans.map(({ state, at, until }) =>
        h(`span.span.${tone(state)}`, {
          "data-key": state,
          title: `${state.toLowerCase()}: ${time(at)}, ${duration(until - at)}`,
          style: { left: `${Math.min(99.7, left(at))}%`, width: `${Math.max(0.3, left(until) - left(at))}%` },
        }),
      ),
    ),
    h("span.told", null, spans.map(({ state, at, until }) => `${state.toLowerCase()} ${time(at)}${at < until ? ` for ${duration(until - at)}` : ""}`).join(" · ")),
  );
}
