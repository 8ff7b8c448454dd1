// The actions on a job: the user confirms each first, and the page follows it to its end.

import { ApiError, LostServerError, get, patch, post } from "./api.js";
import { ask, during, notice } from "./dialogs.js";
import { short } from "./format.js";

const SLOWEST_POLL = 2_000;
const TARGET = {
  name: "target",
  label: "Folder",
  hint: "The folder in which the savepoint is written. If empty: execution.checkpointing.savepoint-dir.",
};

export async function checkpointJob(path, job) {
  await follow(`Checkpoint of ${short(job.name)}`, `${path}/checkpoints`, {}, `${path}/checkpoints`, (done) => `checkpoint ${done.checkpointId}`);
}

export async function saveJob(path, job) {
  const answer = await ask({
    title: "Take a savepoint?",
    text: `${short(job.name)} continues to run. The savepoint stays until you remove it.`,
    fields: [TARGET],
    yes: "Take the savepoint",
  });
  if (answer === null) return;
  const body = { "target-directory": answer.target || null, "cancel-job": false };
  await follow(`Savepoint of ${short(job.name)}`, `${path}/savepoints`, body, `${path}/savepoints`, (done) => done.location);
}

export async function stopJob(path, job, page) {
  const answer = await ask({
    title: "Stop this job with a savepoint?",
    text: `${short(job.name)} takes a savepoint and finishes. You can start it again from the savepoint.`,
    fields: [
      TARGET,
      {
        name: "drain",
        label: "Drain",
        kind: "checkbox",
        hint: "First sends the last watermark, which fires all windows and event-time timers. Do this only if the job will not be started again from this savepoint.",
      },
    ],
    yes: "Stop the job",
    danger: true,
  });
  if (answer === null) return;
  const body = { targetDirectory: answer.target || null, drain: answer.drain };
  await follow(`Stop of ${short(job.name)}`, `${path}/stop`, body, `${path}/savepoints`, (done) => done.location);
  page.reload();
}

export async function cancelJob(path, job, page) {
  const answer = await ask({
    title: "Cancel this job?",
    text: `${short(job.name)} ends at once, without a savepoint. Its checkpoints are deleted unless execution.checkpointing.externalized-checkpoint-retention is RETAIN_ON_CANCELLATION.`,
    yes: "Cancel the job",
    no: "Let it run",
    danger: true,
  });
  if (answer === null) return;
  await during(`${short(job.name)}: cancelling …`, `${short(job.name)} was not cancelled.`, async () => {
    await patch(`${path}?mode=cancel`);
    notice("good", `${short(job.name)} is being cancelled.`);
  });
  page.reload();
}

/** Start an operation and wait for its result; `tell` makes it a text. */
async function follow(what, start, body, results, tell) {
  await during(`${what}: in progress …`, `${what}: the result is unknown.`, async () => {
    const { "request-id": id } = await post(start, body);
    const done = await result(`${results}/${id}`);
    if (done["failure-cause"]) {
      notice("bad", `${what} failed.`, done["failure-cause"]["stack-trace"] ?? done["failure-cause"].class);
    } else {
      notice("good", `${what}: done.`, tell(done));
    }
  });
}

async function result(path) {
  let lost = 0;
  for (let wait = 100; ; wait = Math.min(SLOWEST_POLL, 2 * wait)) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const { status, operation } = await get(path);
      lost = 0;
      if (status.id === "COMPLETED") return operation ?? {};
    } catch (error) {
      // A server may be away for a moment; one that answers with an error has no result.
      if (!(error instanceof LostServerError) || ++lost > 5) throw error instanceof ApiError ? error : new Error("The server does not answer.");
    }
  }
}
