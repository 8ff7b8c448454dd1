// The settings of a job; secrets are hidden by the server.

import { get, getIfThere } from "./api.js";
import { h } from "./dom.js";
import { facts, searchField, section, table } from "./widgets.js";

/** Metrics of operators and connectors, which the graph shows with their vertices. */
const OF_VERTICES = /\.(numLateRecordsDropped|pendingRecords|records-lag-max)$/;
let sought = "";

export function configurationTab(path) {
  return {
    load: async () => {
      const [config, settings, accumulators] = await Promise.all([get(`${path}/config`), getIfThere(`${path}/jobmanager/config`), getIfThere(`${path}/accumulators`)]);
      return { own: config["execution-config"], settings: settings ?? [], accumulators: (accumulators?.["user-task-accumulators"] ?? []).filter(({ name }) => !OF_VERTICES.test(name)) };
    },
    render: ({ own, settings, accumulators }, page) => [
      own &&
        section(
          "Execution",
          facts([
            ["Restart strategy", own["restart-strategy"]],
            ["Parallelism", own["job-parallelism"]],
            ["Object reuse", own["object-reuse-mode"] ? "on" : "off"],
            ["Type", page.job["job-type"].toLowerCase()],
          ]),
          Object.keys(own["user-config"]).length > 0 && settingsTable("Parameters of the job", Object.entries(own["user-config"]).map(([key, value]) => ({ key, value }))),
        ),
      accumulators.length > 0 &&
        section(
          "Metrics of the user's functions",
          table("Accumulators of the job", [["Name"], ["Type"], ["Value", "n"]], accumulators.map(({ name, type, value }) => ({ key: name, cells: [name, type, value] }))),
        ),
      section("Settings", searchableSettings(settings, page)),
    ],
  };
}

export function searchableSettings(settings, page) {
  const found = settings.filter(({ key, value }) => `${key} ${value}`.toLowerCase().includes(sought));
  return [
    searchField("seek-setting", "Find a setting", sought, `${found.length} of ${settings.length}`, (text) => {
      sought = text.toLowerCase();
      page.redraw();
    }),
    settingsTable("Settings", found),
  ];
}

const settingsTable = (caption, list) =>
  table(
    caption,
    [["Key"], ["Value"]],
    [...list].sort((a, b) => a.key.localeCompare(b.key)).map(({ key, value }) => ({ key, cells: [h("code", null, key), h("span.path", null, value)] })),
    "No setting has this text in its key or value.",
  );
