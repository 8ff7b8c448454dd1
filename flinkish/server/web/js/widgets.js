// Parts that several views use.

import { h } from "./dom.js";
import { percent, time } from "./format.js";

const TONES = {
  RUNNING: "good",
  FINISHED: "done",
  COMPLETED: "good",
  FAILED: "bad",
  FAILING: "bad",
  RESTARTING: "warn",
  CANCELED: "off",
  CANCELLING: "warn",
  CANCELING: "warn",
  SUSPENDED: "off",
  INITIALIZING: "busy",
  CREATED: "busy",
  SCHEDULED: "busy",
  DEPLOYING: "busy",
  IN_PROGRESS: "busy",
  RECONCILING: "busy",
};
export const tone = (state) => TONES[state?.toUpperCase()] ?? "off";
export const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);

/** A state in its colour. */
export const badge = (state) => h(`span.badge.${tone(state)}`, null, state.toLowerCase().replaceAll("_", " "));

/** The state of a job that may fail again and again: while it does, it is not shown as healthy. */
export const jobBadge = ({ state, restarts }) => (restarts?.["restarting-since"] ? h("span.badge.bad", null, `${state.toLowerCase()}, fails again and again`) : badge(state));

/** What fails in a job, in a line; nothing if it has not failed. */
export const troubles = ({ restarts }) =>
  restarts &&
  h(
    "span.troubles",
    { title: restarts["last-failure"] },
    restarts["restarting-since"] && h("strong", null, `restarting since ${time(restarts["restarting-since"])} · `),
    `${restarts.count} ${restarts.count === 1 ? "restart" : "restarts"} · last failure ${time(restarts["last-failure-time"])}: `,
    h("span.told", null, restarts["last-failure"]),
  );

/** A figure with its name. */
export const tile = (name, value, more) =>
  h("div.tile", { "data-key": name }, h("dt", null, name), h("dd", null, value, more ? h("small", null, more) : null));

/** A share as a bar with its number; the name is for readers of the screen. */
export const meter = (name, share, kind) =>
  h(
    `span.meter.${kind}`,
    { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * (share || 0)) },
    h("span", { style: { width: `${Math.min(100, Math.max(0, 100 * (share || 0)))}%` } }),
  );

export const meterWithNumber = (name, share, kind) => h("span.withnumber", null, meter(name, share, kind), h("span.number", null, percent(share)));

/** A table that scrolls in its own box; columns are [title, kind], kind "n" for numbers. */
export function table(caption, columns, rows, empty = "Nothing here.") {
  if (rows.length === 0) return h("p.empty", { "data-key": `none:${caption}` }, empty);
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption, "data-key": `table:${caption}` },
    h(
      "table",
      null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, columns.map(([title, kind]) => h(`th${kind === "n" ? ".n" : ""}`, { scope: "col" }, title)))),
      h(
        "tbody",
        null,
        rows.map(({ key, cells, ...properties }) =>
          h(
            "tr",
            { "data-key": key, ...properties },
            cells.map((cell, index) => h(`td${columns[index]?.[1] === "n" ? ".n" : ""}`, null, cell)),
          ),
        ),
      ),
    ),
  );
}

/** Names and values. */
export const facts = (entries) =>
  h(
    "dl.facts",
    null,
    entries.map(([name, value]) => h("div", { "data-key": name }, h("dt", null, name), h("dd", null, value))),
  );

/** Links between parts of a view; the current one is marked. */
export const tabs = (label, items, current) =>
  h(
    "nav.tabs",
    { "aria-label": label, "data-key": `tabs:${label}` },
    items.map(([id, text, href]) => h("a", { href, "data-key": id, "aria-current": id === current ? "page" : null }, text)),
  );

export const section = (title, ...children) => h("section.card", { "data-key": title }, h("h2", null, title), ...children);
