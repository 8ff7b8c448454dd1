// Failures of a job, newest first, with the traceback of the user's code.

import { get } from "./api.js";
import { h } from "./dom.js";
import { time } from "./format.js";

export function exceptionsTab(path) {
  return {
    load: () => get(`${path}/exceptions?maxExceptions=20`),
    render: ({ exceptionHistory: { entries, truncated } }) => [
      entries.length === 0 && h("p.empty", { "data-key": "none" }, "Nothing has failed."),
      entries.map((entry, index) => one(entry, index === 0)),
      truncated && h("p.muted", { "data-key": "more" }, "Older failures are not shown."),
    ],
  };
}

function one(entry, first) {
  const told = lastLine(entry.stacktrace);
  return h(
    "details.card.failure",
    { open: first, "data-key": `${entry.timestamp}.${entry.taskName ?? ""}` },
    h(
      "summary",
      null,
      h("strong", null, entry.exceptionName),
      h("span.muted", null, ` ${time(entry.timestamp)} · ${entry.taskName ?? "the job as a whole"}${entry.endpoint ? ` · ${entry.endpoint}` : ""}`),
      told && h("span.told", null, told),
    ),
    trace(entry.stacktrace),
    (entry.concurrentExceptions ?? []).map((other) =>
      h("details", { "data-key": `with:${other.taskName ?? ""}` }, h("summary", null, `At the same time: ${other.exceptionName} in ${other.taskName ?? "the job"}`), trace(other.stacktrace)),
    ),
  );
}

const lastLine = (text) => text.trim().split("\n").findLast((line) => /^[\w.]+(Error|Exception|Exit|Interrupt|Warning)\b/.test(line)) ?? "";

/** Lines of user code are shown stronger than lines of libraries. */
function trace(text) {
  let own = true;
  return h(
    "pre.trace",
    { tabindex: 0, role: "region", "aria-label": "Traceback" },
    text.split("\n").map((line) => {
      const file = /^\s*File "([^"]+)"/.exec(line);
      if (file) own = !/(^|\/)(site-packages|lib\/python[\d.]+|flinkish)\//.test(file[1]) && !file[1].startsWith("<");
      else if (!line.startsWith(" ")) own = true;
      return h(own ? "span" : "span.library", null, `${line}\n`);
    }),
  );
}
