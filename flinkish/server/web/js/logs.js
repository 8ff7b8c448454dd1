// Log files: of the server, and of the processes of the jobs.

import { get, getIfThere, text } from "./api.js";
import { h } from "./dom.js";
import { bytes, short, time } from "./format.js";
import { searchField, section, table } from "./widgets.js";

/** Most lines of a file that are shown: its end. */
const MOST_LINES = 3000;
let sought = "";

export function logsView(parts) {
  const [process, name] = parts;
  return name === undefined ? listView() : fileView(process, name);
}

const folder = (process) => (process === "server" ? "/jobmanager" : `/taskmanagers/${encodeURIComponent(process)}`);

function listView() {
  return {
    kind: "logs",
    title: () => "Logs",
    load: async () => {
      const names = new Map((await get("/jobs/overview")).jobs.map(({ jid, name }) => [jid, name]));
      const managers = (await getIfThere("/taskmanagers"))?.taskmanagers ?? [];
      const places = [["server", "Server"], ...managers.map(({ id }) => [id, id])];
      return Promise.all(places.map(async ([id, title]) => ({ id, title, names, logs: (await getIfThere(`${folder(id)}/logs`))?.logs ?? [] })));
    },
    render: (places) => [
      h("h1", { "data-key": "title" }, "Logs"),
      places.map(({ id, title, names, logs }) =>
        section(
          title,
          table(
            `Log files of ${title}`,
            [["Job"], ["Name"], ["Size", "n"], ["Last change"]],
            logs.map(({ name, size, mtime }) => ({ key: name, cells: [jobOf(name, names), h("a", { href: `#/logs/${encodeURIComponent(id)}/${encodeURIComponent(name)}` }, name), bytes(size), time(mtime)] })),
            "There are no log files.",
          ),
        ),
      ),
    ],
  };
}

/** The name of the job whose driver wrote a log of a session. */
function jobOf(log, names) {
  const name = names.get(/^driver-([0-9a-f]{32})\./.exec(log)?.[1]);
  return name === undefined ? "–" : h("span.name", { title: name }, short(name));
}

function fileView(process, name) {
  return {
    kind: "logs",
    title: () => name,
    load: async () => (await text(`${folder(process)}/logs/${encodeURIComponent(name)}`)).split("\n"),
    render: (lines, page) => {
      const found = lines.filter((line) => line.toLowerCase().includes(sought));
      return [
        h("h1", { "data-key": "title" }, name),
        h("p", { "data-key": "back" }, h("a", { href: "#/logs" }, "All logs")),
        searchField("seek-line", "Show lines with", sought, found.length > MOST_LINES ? `the last ${MOST_LINES} of ${found.length} lines` : `${found.length} lines`, (text) => {
          sought = text.toLowerCase();
          page.redraw();
        }),
        h("pre.trace.log", { "data-key": "log", tabindex: 0, role: "region", "aria-label": name }, found.slice(-MOST_LINES).join("\n")),
      ];
    },
  };
}
