// Programs of the session: upload, start, remove.

import { get, post, remove, upload } from "./api.js";
import { ask, during, notice } from "./dialogs.js";
import { h } from "./dom.js";
import { short, time } from "./format.js";
import { planDrawing } from "./graph.js";
import { section, table } from "./widgets.js";

/** Starting a program takes as long as its imports, in milliseconds. */
const START_PATIENCE = 300_000;

/** The last answers to the questions about each program, by its id. */
const answers = new Map();
/** The plan that is shown: {file, plan}. */
let planned = null;

export function submitView() {
  return {
    kind: "submit",
    title: () => "Submit",
    load: () => get("/jars"),
    render: ({ files }, page) => [
      h("h1", { "data-key": "title" }, "Submit a job"),
      section(
        "Upload a program",
        h("p.muted", null, "A Python script (.py), or a zip file of modules (.zip)."),
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
                h("button", { type: "button", "aria-label": `Show the plan of ${file.name}`, onclick: () => showPlan(file, page) }, "Plan …"),
                h("button.danger", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => drop(file, page) }, "Remove …"),
              ),
            ],
          })),
          "No program was uploaded yet.",
        ),
      ),
      planned && files.some(({ id }) => id === planned.file.id) && planSection(planned, page),
    ],
  };
}

async function send(input, page) {
  const file = input.files[0];
  if (!file) return;
  const form = new FormData();
  form.append("jarfile", file, file.name);
  await during(`${file.name}: uploading …`, `${file.name} was not uploaded.`, async () => {
    await upload("/jars/upload", form);
    notice("good", `${file.name} is uploaded.`);
  });
  input.value = "";
  page.reload();
}

function planSection({ file, plan }, page) {
  return h(
    "section.card",
    { "data-key": "plan" },
    h("h2", { id: "plan", tabindex: -1 }, `Plan of ${file.name}: ${short(plan.name)}`),
    h("div.buttons", null, [
      h("button", { type: "button", onclick: () => run(file, page) }, "Run this …"),
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            planned = null;
            page.redraw();
          },
        },
        "Close the plan",
      ),
    ]),
    planDrawing(plan),
  );
}

/** Ask how a program is to be started; return the body of the request, or null. */
async function question(file, title, yes, text) {
  const script = file.name.endsWith(".py");
  const known = answers.get(file.id) ?? {};
  const answer = await ask({
    title,
    text,
    fields: [
      !script && { name: "entry", label: "Entry", hint: "The module to run." },
      { name: "arguments", label: "Arguments", hint: "As on a command line. Put quotes around an argument with blanks." },
      { name: "parallelism", label: "Parallelism", kind: "number", hint: "If empty, the program or the configuration decides." },
      { name: "savepoint", label: "Savepoint", hint: "The path of a savepoint to start from. If empty, the job starts from the beginning." },
      { name: "partial", label: "Ignore state of operators that the program no longer has", kind: "checkbox" },
      { name: "settings", label: "Settings", hint: "Pairs of the form key: value, separated by commas." },
    ]
      .filter(Boolean)
      .map((field) => ({ ...field, value: known[field.name] })),
    yes,
  });
  if (answer === null) return null;
  answers.set(file.id, answer);
  const body = { programArgsList: words(answer.arguments), allowNonRestoredState: answer.partial };
  if (answer.entry) body.entryClass = answer.entry;
  if (answer.parallelism) body.parallelism = Number(answer.parallelism);
  if (answer.savepoint) body.savepointPath = answer.savepoint;
  const settings = pairs(answer.settings);
  if (Object.keys(settings).length) body.flinkConfiguration = settings;
  return body;
}

async function run(file, page) {
  const body = await question(file, `Run ${file.name}?`, "Run the program");
  if (body === null) return;
  const started = await during(`${file.name}: starting …`, `${file.name} was not started.`, async () => {
    const { jobid } = await post(`/jars/${encodeURIComponent(file.id)}/run`, body, START_PATIENCE);
    notice("good", `${file.name} was started.`, jobid);
    planned = null;
    location.hash = `#/job/${jobid}`;
  });
  if (!started) page.reload();
}

async function showPlan(file, page) {
  const text = "The program is run up to its execute(). No job is started, but what the program does before that takes effect.";
  const body = await question(file, `Show the plan of ${file.name}?`, "Show the plan", text);
  if (body === null) return;
  await during(`${file.name}: making its plan …`, `${file.name} has no plan.`, async () => {
    const { plan } = await post(`/jars/${encodeURIComponent(file.id)}/plan`, body, START_PATIENCE);
    planned = { file, plan };
    page.redraw();
    // Nothing to focus if another view was opened meanwhile.
    document.getElementById("plan")?.focus();
  });
}

async function drop(file, page) {
  if ((await ask({ title: `Remove ${file.name}?`, text: "Jobs that were started from it continue to run.", yes: "Remove it", danger: true })) === null) return;
  await during(`${file.name}: removing …`, `${file.name} was not removed.`, () => remove(`/jars/${encodeURIComponent(file.id)}`));
  page.reload();
}

/** Split into words as a shell does, but without variables and wildcards. */
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
