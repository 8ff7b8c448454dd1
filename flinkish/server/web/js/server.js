// The server itself: its settings, its environment, its threads.

import { getIfThere } from "./api.js";
import { searchableSettings } from "./configuration.js";
import { h } from "./dom.js";
import { facts, section } from "./widgets.js";

export function serverView() {
  /** Threads are asked for on demand: their stacks are long. */
  let threads = null;
  return {
    kind: "server",
    title: () => "Server",
    load: async () => {
      const [settings, environment] = await Promise.all([getIfThere("/jobmanager/config"), getIfThere("/jobmanager/environment")]);
      return { settings: settings ?? [], environment };
    },
    render: ({ settings, environment }, page) => [
      h("h1", { "data-key": "title" }, "Server"),
      environment && section("Environment", facts([["Python", environment.jvm.version], ["Machine", environment.jvm.arch], ["REST", `as of Flink ${page.config["flink-version"]}`]])),
      section("Settings of the server", searchableSettings(settings, page)),
      section(
        "Threads",
        h(
          "button",
          {
            type: "button",
            onclick: async () => {
              threads = ((await getIfThere("/jobmanager/thread-dump")) ?? { threadInfos: [] }).threadInfos;
              page.redraw();
            },
          },
          threads === null ? "Show the stacks of all threads" : "Read them again",
        ),
        (threads ?? []).map(({ threadName, stringifiedThreadInfo }, index) =>
          h("details", { "data-key": `${index}:${threadName}` }, h("summary", null, threadName), h("pre.trace", { tabindex: 0, role: "region", "aria-label": threadName }, stringifiedThreadInfo)),
        ),
      ),
    ],
  };
}
