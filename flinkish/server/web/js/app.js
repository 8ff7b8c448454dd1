// The frame of the page: opens views, asks the server again at intervals, and shows if the server does not answer.

import { ApiError, LostServerError, get, onTokenNeeded } from "./api.js";
import { h, update } from "./dom.js";
import { askToken } from "./dialogs.js";
import { duration } from "./format.js";
import { match } from "./views.js";

const SLOWEST_RETRY = 10_000;
const bar = document.getElementById("bar");
const banner = document.getElementById("banner");
const main = document.getElementById("main");

/** The answer of /config; null until the server has answered. */
let config = null;
let view = null;
let data;
let problem = null;
let lostSince = null;
let failures = 0;
let timer = null;
let round = 0;

async function load() {
  clearTimeout(timer);
  const [mine, number] = [view, ++round];
  const current = () => mine === view && number === round;
  try {
    config ??= await get("/config");
    const found = await mine.load({ config });
    if (!current()) return;
    [data, problem, lostSince, failures] = [found, null, null, 0];
  } catch (error) {
    if (!current()) return;
    failures += 1;
    if (error instanceof LostServerError) {
      lostSince ??= Date.now();
      // A server that was started again may have other settings.
      config = null;
    } else {
      lostSince = null;
      problem = error;
      if (!(error instanceof ApiError)) console.error(error);
    }
  }
  draw();
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (document.hidden) return;
  const interval = config?.["refresh-interval"] ?? 3000;
  const wait = lostSince === null ? interval : Math.min(SLOWEST_RETRY, 1000 * 2 ** Math.min(failures - 1, 4));
  timer = setTimeout(load, wait);
}

function draw() {
  const title = view.title(data);
  document.title = title ? `${title} · flinkish` : "flinkish";
  update(bar, ...frame());
  main.classList.toggle("stale", lostSince !== null);
  main.setAttribute("aria-busy", String(data === undefined && problem === null));
  update(banner, lostSince !== null && lost());
  if (data !== undefined) {
    let content;
    try {
      content = view.render(data, { redraw: draw, reload: load, config });
    } catch (error) {
      // Answers that the view does not understand: the next ones may be better.
      console.error(error);
      [content, problem] = [null, error];
    }
    update(main, problem && failed(problem), content);
  } else if (problem !== null) {
    update(main, failed(problem));
  } else if (lostSince === null) {
    update(main, h("p.loading", { "data-key": "loading" }, "Loading …"));
  }
}

const lost = () =>
  h(
    "div.lost",
    { "data-key": "lost" },
    h("strong", null, "The server does not answer"),
    ` since ${duration(Math.max(1000, Date.now() - lostSince))}. `,
    data === undefined ? "The page keeps trying." : "What is shown is old. The page keeps trying.",
    h("button", { type: "button", onclick: load }, "Try now"),
  );

function failed(error) {
  const messages = error instanceof ApiError ? error.message.split("\n") : [`The page has a defect: ${error.message}`];
  return h(
    "section.problem",
    { "data-key": "problem", role: "alert" },
    h("h2", null, error.status === 404 ? "Not there" : error.status ? `The server answered with an error (${error.status})` : "Error"),
    messages.map((message) => h("pre", null, message)),
    error.status === 404 && h("p", null, "The server no longer knows jobs that ended long ago. ", h("a", { href: "#/" }, "All jobs")),
  );
}

function frame() {
  const link = (href, text, kind) => h("a", { href, "aria-current": view.kind === kind ? "page" : null }, text);
  return [
    h("a.brand", { href: "#/" }, h("img", { src: "icon.svg", alt: "", width: 24, height: 24 }), "flinkish"),
    h(
      "nav",
      { "aria-label": "Pages" },
      link("#/", "Jobs", "jobs"),
      config?.features["web-submit"] && link("#/submit", "Submit", "submit"),
      link("#/server", "Server", "server"),
      link("#/logs", "Logs", "logs"),
    ),
    h("span.version", null, config ? `REST of Flink ${config["flink-version"]}` : ""),
  ];
}

function open() {
  const found = match(location.hash);
  if (found.redirect) {
    location.replace(found.redirect);
    return;
  }
  const before = view;
  view = found.view;
  // A view of the same job goes on with the figures that the page has already.
  data = before && view.keep && before.keep === view.keep && view.shape === before.shape ? data : undefined;
  problem = null;
  if (before && before.kind !== view.kind) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  // Until there is something to show, the last view stays.
  if (data !== undefined || before === null) draw();
  load();
}

onTokenNeeded(askToken);
document.getElementById("skip").onclick = (event) => {
  event.preventDefault();
  main.focus();
};
window.addEventListener("hashchange", open);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : load()));
open();
