// Which view an address names. Addresses of Flink's own page lead to the views that show the same.

import { jobView } from "./job.js";
import { logsView } from "./logs.js";
import { overviewView } from "./overview.js";
import { serverView } from "./server.js";
import { submitView } from "./submit.js";

const TABS = new Set(["graph", "checkpoints", "exceptions", "metrics", "timeline", "configuration"]);

/** Return {view} or {redirect} for the part of the address behind the hash. */
export function match(hash) {
  let parts;
  try {
    parts = hash.replace(/^#?\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { redirect: "#/" };
  }
  const [first, second, ...rest] = parts;
  switch (first) {
    case undefined:
      return { view: overviewView() };
    case "job":
      if (second === "running" || second === "completed") return { redirect: rest.length ? flinkJob(rest) : "#/" };
      if (second && (rest.length === 0 || TABS.has(rest[0]))) return { view: jobView(second, rest[0] ?? "graph", rest.slice(1)) };
      break;
    case "submit":
      return { view: submitView() };
    case "server":
      return { view: serverView() };
    case "logs":
      return { view: logsView(parts.slice(1)) };
    case "job-manager":
    case "task-manager":
      return { redirect: parts.includes("logs") || parts.includes("log") || first === "task-manager" ? "#/logs" : "#/server" };
  }
  return { redirect: "#/" };
}

function flinkJob([job, page, vertex]) {
  const tab = page === undefined || page === "overview" ? "graph" : TABS.has(page) ? page : "graph";
  return `#/job/${job}/${tab}${page === "overview" && vertex ? `/${vertex}` : ""}`;
}
