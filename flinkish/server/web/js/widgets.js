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

/** The failures of a job in a line; nothing if it has not failed. */
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

/** How tables are sorted, by caption: the index of the column, and whether the largest comes first. */
const orders = new Map();

/** No value is negative, so one that is not there, which is shown as a dash, counts as the smallest. */
const known = (value) => (Number.isFinite(value) ? value : -1);
const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : known(a) - known(b));

function sorted(caption, rows) {
  const order = orders.get(caption);
  if (!order) return rows;
  const { column, down } = order;
  return rows.toSorted((a, b) => (down ? -1 : 1) * compare(a.values[column], b.values[column]));
}

/** Sort by a column, numbers with the largest first; a second time the other way round, a third time not at all. */
function reorder(caption, column, kind) {
  const order = orders.get(caption);
  const first = kind === "n";
  if (order?.column !== column) orders.set(caption, { column, down: first });
  else if (order.down === first) orders.set(caption, { column, down: !first });
  else orders.delete(caption);
}

function header(caption, [title, kind], column, redraw) {
  const order = orders.get(caption);
  const sort = redraw && order?.column === column && (order.down ? "descending" : "ascending");
  const onclick = () => {
    reorder(caption, column, kind);
    redraw();
  };
  return h(`th${kind === "n" ? ".n" : ""}`, { scope: "col", "aria-sort": sort }, redraw ? h("button.sort", { type: "button", onclick }, title) : title);
}

/**
 * A table that scrolls in its own box; columns are [title, kind], kind "n" for numbers. With redraw, which draws the page again,
 * its headers sort it by the values of its rows.
 */
export function table(caption, columns, rows, empty = "Nothing here.", redraw = null) {
  if (rows.length === 0) return h("p.empty", { "data-key": `none:${caption}` }, empty);
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption, "data-key": `table:${caption}` },
    h(
      "table",
      null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, columns.map((column, index) => header(caption, column, index, redraw)))),
      h(
        "tbody",
        null,
        (redraw ? sorted(caption, rows) : rows).map(({ key, cells, values, ...properties }) =>
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

/** The part of a row with [value, cell] of each column. */
export const cellsOf = (columns) => ({ values: columns.map(([value]) => value), cells: columns.map(([, cell]) => cell) });

/** Names and values. */
export const facts = (entries) =>
  h(
    "dl.facts",
    null,
    entries.map(([name, value]) => h("div", { "data-key": name }, h("dt", null, name), h("dd", null, value))),
  );

/** A field to search with: `found` says how much was found, `oninput` gets the text without blanks around it. */
export const searchField = (id, name, value, found, oninput) =>
  h(
    "div.field.inline",
    { "data-key": "seek" },
    h("label", { for: id }, name),
    h("input", { id, type: "search", value, oninput: (event) => oninput(event.target.value.trim()) }),
    h("span.muted", null, found),
  );

/** Links between parts of a view; the current one is marked. */
export const tabs = (label, items, current) =>
  h(
    "nav.tabs",
    { "aria-label": label, "data-key": `tabs:${label}` },
    items.map(([id, text, href]) => h("a", { href, "data-key": id, "aria-current": id === current ? "page" : null }, text)),
  );

export const section = (title, ...children) => h("section.card", { "data-key": title }, h("h2", null, title), ...children);
