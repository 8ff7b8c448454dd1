// Programs of the session: upload, start, remove.

import { get, post, remove, upload } from "./api.js";
import { ask, notice } from "./dialogs.js";
import { h } from "./dom.js";
import { time } from "./format.js";
import { section, table } from "./widgets.js";

/** Starting a program takes as long as its imports, in milliseconds. */
const START_PATIENCE = 300_000;

export function submitView() {
  return {
    kind: "submit",
    title: () => "Submit",
    load: () => get("/jars"),
    render: ({ files }, page) => [
      h("h1", { "data-key": "title" }, "Submit a job"),
      section(
        "Upload a program",
        h("p.muted", null, "A Python script (.py), or a .zip of modules."),
        h(
          "div.field.inline",
          null,
          h("label", { for: "program" }, "File"),
          h("input", { id: "program", type: "file", accept: ".py,.zip", onchange: (event) => send(event.target, page) }),
        ),
      ),
      section(
        "Programs",
        table(
          "Uploaded programs",
          [["Name"], ["Uploaded"], ["Entry"], [""]],
          files.map((file) => ({
            key: file.id,
            cells: [
              file.name,
              time(file.uploaded),
              file.entry?.[0]?.name ?? "",
              h(
                "span.buttons",
                null,
                h("button", { type: "button", "aria-label": `Run ${file.name}`, onclick: () => run(file, page) }, "Run …"),
                h("button.danger", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => drop(file, page) }, "Remove …"),
              ),
            ],
          })),
          "No program was uploaded yet.",
        ),
      ),
    ],
  };
}

async function send(input, page) {
  const file = input.files[0];
  if (!file) return;
  const form = new FormData();
  form.append("jarfile", file, file.name);
  const shown = notice("busy", `${file.name}: uploading …`);
  try {
    await upload("/jars/upload", form);
    notice("good", `${file.name} is uploaded.`);
  } catch (error) {
    notice("bad", `${file.name} was not uploaded.`, error.message);
  } finally {
    shown.remove();
    input.value = "";
  }
  page.reload();
}

async function run(file, page) {
  const script = file.name.endsWith(".py");
  const answer = await ask({
    title: `Run ${file.name}?`,
    fields: [
      !script && { name: "entry", label: "Entry", hint: "The module that is run." },
      { name: "arguments", label: "Arguments", hint: "As on a command line; quotes keep words together." },
      { name: "parallelism", label: "Parallelism", kind: "number", hint: "Empty: as the program or the configuration says." },
      { name: "savepoint", label: "Savepoint", hint: "Where the job starts from; empty: from the beginning." },
      { name: "partial", label: "Leave out state of operators that the program no longer has", kind: "checkbox" },
      { name: "settings", label: "Settings", hint: "key: value, separated by commas." },
    ].filter(Boolean),
    yes: "Run the program",
  });
  if (answer === null) return;
  const body = { programArgsList: words(answer.arguments), allowNonRestoredState: answer.partial };
  if (answer.entry) body.entryClass = answer.entry;
  if (answer.parallelism) body.parallelism = Number(answer.parallelism);
  if (answer.savepoint) body.savepointPath = answer.savepoint;
  const settings = pairs(answer.settings);
  if (Object.keys(settings).length) body.flinkConfiguration = settings;
  const shown = notice("busy", `${file.name}: starting …`);
  try {
    const { jobid } = await post(`/jars/${encodeURIComponent(file.id)}/run`, body, START_PATIENCE);
    notice("good", `${file.name} was started.`, jobid);
    location.hash = `#/job/${jobid}`;
  } catch (error) {
    notice("bad", `${file.name} was not started.`, error.message);
    page.reload();
  } finally {
    shown.remove();
  }
}

async function drop(file, page) {
  if ((await ask({ title: `Remove ${file.name}?`, text: "Jobs that run it are not touched.", yes: "Remove it", danger: true })) === null) return;
  try {
    await remove(`/jars/${encodeURIComponent(file.id)}`);
  } catch (error) {
    notice("bad", `${file.name} was not removed.`, error.message);
  }
  page.reload();
}

/** Split as a shell does, but for what stands for other things there. */
export function words(line) {
  return [...line.matchAll(/(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([^\s"']+))+/g)].map(([word]) =>
    word.replace(/"((?:\\.|[^"\\])*)"|'([^']*)'/g, (_, double, single) => (double === undefined ? single : double.replace(/\\(.)/g, "$1"))),
  );
}

export function pairs(text) {
  const found = text
    .split(",")
    .map((line) => /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line))
    .filter(Boolean);
  return Object.fromEntries(found.map(([, key, value]) => [key, value]));
}
