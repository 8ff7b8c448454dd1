// Requests to REST. Paths are relative to the page, so the server may be mounted anywhere.

const TOKEN = "flinkish.token";
const PATIENCE = 15_000;

/** The server answered with an error. */
export class ApiError extends Error {
  constructor(status, messages) {
    super(messages.join("\n"));
    this.status = status;
  }
}

/** The server did not answer. */
export class LostServerError extends Error {}

/** Called when the server wants a token; returns a promise of one. */
let askForToken = async () => {
  throw new ApiError(401, ["This server needs a token."]);
};
let asked = null;

export function onTokenNeeded(ask) {
  askForToken = ask;
}

async function request(method, path, options = {}) {
  const { body, type, patience = PATIENCE } = options;
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (type) headers["Content-Type"] = type;
  let response;
  try {
    // Without credentials the browser does not ask for a password itself: the page asks for the token.
    response = await fetch(`.${path}`, { method, headers, body, credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(patience) });
  } catch (error) {
    throw new LostServerError(error.name === "TimeoutError" ? "no answer in time" : "no connection");
  }
  if (response.status === 401) {
    // Several requests may wait for one token.
    if (sessionStorage.getItem(TOKEN) === token) {
      asked ??= askForToken(token !== null).finally(() => (asked = null));
      sessionStorage.setItem(TOKEN, await asked);
    }
    return request(method, path, options);
  }
  if (!response.ok) throw new ApiError(response.status, await errors(response));
  return response;
}

async function errors(response) {
  const text = await response.text().catch(() => "");
  try {
    const found = JSON.parse(text).errors;
    if (Array.isArray(found) && found.length) return found.map(String);
  } catch {
    // Not JSON: a proxy, or another server.
  }
  return [`The server answered ${response.status} ${response.statusText}.`];
}

async function json(response) {
  try {
    return JSON.parse(await response.text());
  } catch (error) {
    throw error instanceof SyntaxError
      ? new ApiError(response.status, ["The answer is not JSON: is this address the server's?"])
      : new LostServerError("the answer broke off");
  }
}

export const get = async (path) => json(await request("GET", path));
export const text = async (path) => (await request("GET", path)).text();
export const post = async (path, body, patience = PATIENCE) =>
  json(await request("POST", path, { body: JSON.stringify(body ?? {}), type: "application/json", patience }));
export const patch = async (path) => json(await request("PATCH", path, { body: "{}", type: "application/json" }));
export const remove = async (path) => json(await request("DELETE", path));
export const upload = async (path, form) => json(await request("POST", path, { body: form, patience: 300_000 }));

/** Return the answer, or null if the server has no such thing. */
export async function getIfThere(path, read = get) {
  try {
    return await read(path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}
