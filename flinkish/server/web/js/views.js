// Which view an address names. Addresses of Flink's own page lead to the views that show the same.

import { jobView, TABS } from "./job.js";
import { logsView } from "./logs.js";
import { overviewView } from "./overview.js";
import { serverView } from "./server.js";
import { submitView } from "./submit.js";

const isTab = (name) => Object.hasOwn(TABS, name);

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
      if (second && (rest.length === 0 || isTab(rest[0]))) return { view: jobView(second, rest[0] ?? "graph", rest.slice(1)) };
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
  return `#/job/${job}/${isTab(page) ? page : "graph"}${page === "overview" && vertex ? `/${vertex}` : ""}`;
}
