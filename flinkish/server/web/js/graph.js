// The graph of a job: vertices as boxes in levels, edges between them, and the vertex that was chosen below.

import { h, svg } from "./dom.js";
import { bytes, chain, chainText, count, duration, percent, short, watermark, whole } from "./format.js";
import { layout } from "./layout.js";
import { loadVertex, vertexPanel } from "./vertex.js";
import { badge, cellsOf, ENDED, meter, section, table, tone } from "./widgets.js";

const BOX = { boxWidth: 248, levelGap: 84, gap: 26 };
/** Height of a box without names, of one whose job has ended, of one of a plan, and of one line of names. */
const [REST_OF_BOX, REST_OF_ENDED, REST_OF_PLAN, LINE] = [112, 58, 24, 19];
const MOST_LINES = 3;
const SHIPPING = { HASH: "by key", REBALANCE: "in turns", FORWARD: "forward", BROADCAST: "broadcast", RESCALE: "rescale", SHUFFLE: "at random" };

export function graphTab(path, [vertex, part], jobId) {
  return {
    load: (job) => (job.vertices.some(({ id }) => id === vertex) ? loadVertex(path, vertex, part) : null),
    render: (inside, page) => [
      drawing(page, vertex, jobId),
      inside && vertexPanel(inside, page, vertex, part, jobId),
      !inside && verticesTable(page, jobId),
      !inside && h("p.hint", { "data-key": "hint" }, "Select a vertex to see its subtasks, watermarks, back pressure and metrics."),
    ],
  };
}

/** All vertices with their totals, sources first. */
function verticesTable({ job, samples, redraw }, jobId) {
  const vertices = new Map(job.vertices.map((vertex) => [vertex.id, vertex]));
  const rows = job.plan.nodes.toReversed().flatMap((node) => {
    const [vertex, metrics] = [vertices.get(node.id), samples.get(node.id)];
    if (!vertex) return [];
    const { metrics: totals } = vertex;
    const name = chainText(node);
    const columns = [
      [name, h("a.name", { href: `#/job/${jobId}/graph/${node.id}`, title: name }, short(name))],
      [vertex.status, badge(vertex.status)],
      [vertex.parallelism, vertex.parallelism],
      ...["read-records", "write-records"].map((total) => [totals[total], whole(totals[total])]),
      ...["read-bytes", "write-bytes"].map((total) => [totals[total], bytes(totals[total])]),
      ...["numLateRecordsDropped", "pendingRecords"].map((metric) => [sum(metrics, metric), whole(sum(metrics, metric))]),
      ...["accumulated-busy-time", "accumulated-backpressured-time"].map((total) => [totals[total], duration(totals[total])]),
    ];
    return { key: node.id, ...cellsOf(columns) };
  });
  const columns = [["Vertex"], ["State"], ["Parallelism", "n"], ["Records in", "n"], ["Records out", "n"], ["Bytes in", "n"], ["Bytes out", "n"], ["Late", "n"], ["To read", "n"], ["Busy", "n"], ["Held back", "n"]];
  return section("Vertices", table("Vertices with their totals", columns, rows, "No vertex has started yet.", redraw));
}

function drawing({ job, samples }, chosen, jobId) {
  const ended = ENDED.has(job.state);
  const vertices = new Map(job.vertices.map((vertex) => [vertex.id, vertex]));
  const bottlenecks = findBottlenecks(job, samples);
  return canvas("Graph of the job", job.plan, ended ? REST_OF_ENDED : REST_OF_BOX, (node, place) =>
    box(node, vertices.get(node.id), samples.get(node.id), {
      ...place,
      href: `#/job/${jobId}/graph/${node.id}`,
      chosen: node.id === chosen,
      ended,
      bottleneck: bottlenecks.has(node.id),
    }),
  );
}

/** The graph of a program that does not run. */
export function planDrawing(plan) {
  return canvas("Graph of the plan", plan, REST_OF_PLAN, (node, { style, room }) =>
    h("div.vertex", { "data-key": node.id, style }, names(node, room), parallelism(node)),
  );
}

/** Boxes in their places, and lines between them; `makeBox` gets a node, its style, its lines of names, and its ends. */
function canvas(name, plan, rest, makeBox) {
  const down = window.innerWidth < 720;
  const room = Math.max(2, ...plan.nodes.map((node) => Math.min(MOST_LINES, chain(node.description).length)));
  const boxHeight = rest + LINE * room;
  const nodes = plan.nodes.toReversed();
  const { places, routes, width, height } = layout(nodes, { ...BOX, boxHeight, levelGap: down ? 56 : BOX.levelGap, down });
  return h(
    "div.graph",
    { "data-key": "graph", tabindex: 0, role: "region", "aria-label": name },
    h(
      "div.canvas",
      { style: { width: `${width}px`, height: `${height}px` } },
      svg(
        "svg",
        { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        svg("defs", null, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z", class: "head" }))),
        routes.map(({ from, to, input, points }) =>
          svg("path", { "data-key": `${from}>${to}>${input.num}`, d: curve(points, down), class: "edge", "marker-end": "url(#arrow)" }),
        ),
        routes.map(({ points, input }) => label(points, down, input.ship_strategy)),
      ),
      // In the order of the levels, because the tab key follows it.
      nodes.map((node) => {
        const { x, y } = places.get(node.id);
        return makeBox(node, {
          style: { left: `${x}px`, top: `${y}px`, width: `${BOX.boxWidth}px`, height: `${boxHeight}px` },
          room,
          ends: { source: (node.inputs ?? []).length === 0, sink: !routes.some(({ from }) => from === node.id) },
        });
      }),
    ),
  );
}

function curve(points, down) {
  let path = `M${points[0]}`;
  for (let index = 1; index < points.length; index++) {
    const [[x, y], [u, v]] = [points[index - 1], points[index]];
    if (index % 2 === 0) path += `L${u} ${v}`;
    else if (down) path += `C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`;
    else path += `C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u} ${v}`;
  }
  return path;
}

function label(points, down, strategy) {
  const [[x, y], [u, v]] = points.slice(-2);
  const text = SHIPPING[strategy] ?? strategy.toLowerCase();
  return svg("text", { x: (x + u) / 2, y: (y + v) / 2 - (down ? 0 : 6), class: "ship" }, svg("title", null, strategy), text);
}

const sum = (metrics, name) => metrics?.get(name)?.sum ?? NaN;
const most = (metrics, name) => (metrics?.get(name)?.max ?? NaN) / 1000;

/**
 * The bottlenecks: of the vertices that a held back one sends to, the busiest that is not held back itself. All vertices share the
 * slots, so a vertex elsewhere that is far busier takes the time instead.
 */
export function findBottlenecks(job, samples) {
  const isHeld = (id) => most(samples.get(id), "backPressuredTimeMsPerSecond") >= 0.5;
  const busy = (node) => most(samples.get(node.id), "busyTimeMsPerSecond") || 0;
  const busiest = (nodes) => nodes.reduce((first, second) => (busy(second) > busy(first) ? second : first));
  const [held, free] = [true, false].map((kind) => job.plan.nodes.filter(({ id }) => isHeld(id) === kind));
  const found = new Set();
  for (const { id } of free.length ? held : []) {
    const [behind, all] = [free.filter((node) => (node.inputs ?? []).some((input) => input.id === id)), busiest(free)];
    if (behind.length) found.add((busy(busiest(behind)) >= busy(all) / 2 ? busiest(behind) : all).id);
  }
  return found;
}

function names(node, room) {
  const lines = chain(node.description);
  return h(
    "span.names",
    { title: chainText(node) },
    // The first name takes the lines that are left.
    lines.slice(0, lines.length > MOST_LINES ? MOST_LINES - 1 : MOST_LINES).map(({ text, depth }, index) =>
      h(`span.lines${index === 0 ? Math.max(1, room - lines.length + 1) : 1}`, null, depth ? "→ " : "", text),
    ),
    lines.length > MOST_LINES && h("span.muted", null, `and ${lines.length - MOST_LINES + 1} more`),
  );
}

const parallelism = (node) => h("span.parallel", { title: "Parallelism" }, `× ${node.parallelism}`);

function box(node, vertex, metrics, { style, room, href, chosen, ended, bottleneck, ends }) {
  const busy = most(metrics, "busyTimeMsPerSecond");
  const held = most(metrics, "backPressuredTimeMsPerSecond");
  const [late, pending] = [sum(metrics, "numLateRecordsDropped"), sum(metrics, "pendingRecords")];
  const level = ended ? `ended ${tone(vertex?.status)}` : bottleneck ? "hot" : held >= 0.5 ? "held" : busy >= 0.8 ? "hot" : busy >= 0.4 ? "warm" : "";
  return h(
    "a.vertex",
    { "data-key": node.id, class: `${level} ${chosen ? "chosen" : ""}`, href, "aria-current": chosen ? "true" : null, style },
    names(node, room),
    parallelism(node),
    h(
      "span.marks",
      null,
      vertex && (vertex.status !== "RUNNING" || ended) && badge(vertex.status),
      bottleneck && !ended && h("span.badge.warn", null, "bottleneck"),
      late > 0 && h("span.badge.bad", { title: "Records that were dropped as too late" }, `${count(late)} late`),
      pending > 0 && !ended && h("span.badge.busy", { title: "Records that the source has not read yet" }, `${count(pending)} to read`),
    ),
    ended ? totals(vertex, ends) : rates(metrics, ends),
    !ended && [
      h("span.row", null, h("span", null, "busy"), meter("busy", busy, "busy"), h("span.number", null, percent(busy))),
      h("span.row", null, h("span", null, "held back"), meter("held back", held, "held"), h("span.number", null, percent(held))),
    ],
  );
}

function rates(metrics, ends) {
  const rate = (name) => count(Math.round(metrics?.get(name)?.sum ?? NaN));
  return [
    h("span.rates", null, inAndOut(ends, rate("numRecordsInPerSecond"), rate("numRecordsOutPerSecond")), h("span.unit", null, " records/s")),
    h("span.mark", null, "watermark ", watermark(metrics?.get("watermark")?.min, true)),
  ];
}

const totals = (vertex, ends) =>
  vertex && [
    h("span.rates", null, inAndOut(ends, count(vertex.metrics["read-records"]), count(vertex.metrics["write-records"])), h("span.unit", null, " records")),
  ];

/** What a source reads it also sends, and a sink sends nothing; a vertex that is both only reads. */
const inAndOut = ({ source, sink }, read, sent) => [(!source || sink) && `${read} in`, !sink && `${sent} out`].filter(Boolean).join(" · ");
