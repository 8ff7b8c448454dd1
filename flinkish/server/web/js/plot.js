// Small plots over time.

import { h, svg } from "./dom.js";
import { time } from "./format.js";

/** The drawing is as wide as there is room; texts are outside it, so that they keep their size. */
const [WIDTH, HEIGHT, MARGIN] = [320, 80, 2];
/** Points that are further apart than this are not connected, in milliseconds. */
const GAP = 30_000;
/** Where the pointer is: the plot and the time there. */
let pointer = null;

/**
 * `lines` are [{name, points: [[time, value], ...], kind}]; `kind` is a colour with a meaning. `shown` makes a text of a value. The scale
 * ends at `most`, if it is given, and does not begin at 0 if it is null. `key` distinguishes plots with the same title.
 */
export function plot(title, lines, shown, redraw, most, key = title) {
  const all = lines.flatMap(({ points }) => points);
  if (all.length === 0) return h("figure.plot", { "data-key": key }, h("figcaption", null, title), h("p.empty", null, "No values yet."));
  const times = all.map(([at]) => at);
  const [begin, end] = [Math.min(...times), Math.max(...times, Math.min(...times) + 1000)];
  const values = all.map(([, value]) => value);
  const low = most === null ? Math.min(...values) : Math.min(0, ...values);
  const high = most ?? (Math.max(...values) > low ? Math.max(...values) : low + 1);
  const x = (at) => (WIDTH * (at - begin)) / (end - begin);
  const y = (value) => MARGIN + ((HEIGHT - 2 * MARGIN) * (high - value)) / (high - low);
  const here = pointer?.key === key ? begin + pointer.share * (end - begin) : null;
  return h(
    "figure.plot",
    { "data-key": key },
    h("figcaption", null, title),
    h("p.scale", null, shown(high)),
    svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": lines.map(({ name, points }) => `${name}: ${points.length ? shown(points.at(-1)[1]) : "no value"}`).join(", "),
        onpointermove: (event) => {
          const place = event.currentTarget.getBoundingClientRect();
          pointer = { key, share: Math.min(1, Math.max(0, (event.clientX - place.left) / place.width)) };
          redraw();
        },
        onpointerleave: () => {
          pointer = null;
          redraw();
        },
      },
      [low, high].map((value) => svg("line", { "data-key": `line${value}`, x1: 0, x2: WIDTH, y1: y(value), y2: y(value), class: "axis" })),
      lines.map(({ points, kind }, index) => [
        points.length === 1 && svg("circle", { cx: x(points[0][0]), cy: y(points[0][1]), r: 2.5, class: `dot${kind ?? index}` }),
        svg("path", { "data-key": `path${index}`, d: path(points, x, y), class: `curve curve${kind ?? index}` }),
      ]),
      here !== null && svg("line", { x1: x(here), x2: x(here), y1: 0, y2: HEIGHT, class: "pointer" }),
    ),
    h("p.scale.ends", null, h("span", null, time(begin)), h("span", null, time(end))),
    h(
      "p.legend",
      null,
      lines.map(({ name, points, kind }, index) => {
        const point = here === null ? points.at(-1) : nearest(points, here);
        return h("span", { "data-key": name }, h(`i.dot${kind ?? index}`, { "aria-hidden": "true" }), `${name} `, h("b", null, point ? shown(point[1]) : "–"));
      }),
      here !== null && h("span.muted", null, time(here)),
    ),
  );
}

function path(points, x, y) {
  let before = null;
  return points
    .map(([at, value]) => {
      const move = before === null || at - before > GAP ? "M" : "L";
      before = at;
      return `${move}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join("");
}

const nearest = (points, at) => points.reduce((best, point) => (best && Math.abs(best[0] - at) <= Math.abs(point[0] - at) ? best : point), undefined);
