/** Requests to `/api/v1`, and what can be wrong with them. */

const BASE = "/api/v1";
/** After this time an answer is not waited for any longer. */
const TIMEOUT_MS = 20_000;
/** The most that the server gives in one page. */
export const LARGEST_PAGE = 5000;

/**
 * A request that failed. `kind` is one of: unreachable (no answer, or none that is ours),
 * forbidden, unauthorized, missing, invalid, busy, unavailable, failed.
 */
export class ApiError extends Error {
  constructor(kind, message, { status = 0, verb = "get", path = "", retryAfter = 0 } = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.verb = verb;
    this.path = path;
    this.retryAfter = retryAfter;
  }
}

const KINDS = {
  400: "invalid",
  401: "unauthorized",
  403: "forbidden",
  404: "missing",
  413: "invalid",
  422: "invalid",
  429: "busy",
  502: "unreachable",
  503: "unavailable",
  504: "unreachable",
};

/** Return the URL of a path below `/api/v1`; empty parameters are left out. */
export function url(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

/** Return the path of an object, whatever characters its names have. */
export function pathOf(...parts) {
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function get(path, params, { signal } = {}) {
  return request("get", path, params, { signal });
}

/** Return a document whose list is in pages as a whole; `params.limit` is that of one page. */
export async function getAll(path, params, { signal, most = Infinity } = {}) {
  const first = await get(path, params, { signal });
  const items = first.items ?? [];
  let last = first;
  while (last.continue && items.length < most) {
    last = await get(path, { ...params, continue: last.continue }, { signal });
    for (const item of last.items ?? []) items.push(item);
  }
  // The revision is that of the first page: changes since then are sent again, which is harmless.
  return { ...first, items, remaining: last.remaining ?? 0, continue: last.continue ?? "" };
}

export function post(path, body, { signal } = {}) {
  return request("post", path, {}, {
    signal,
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    timeout: 120_000,
  });
}

async function request(verb, path, params, { signal, body, headers, timeout } = {}) {
  const response = await answer(verb, path, params, { signal, body, headers, timeout });
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "the answer is not complete", { verb, path: BASE + path });
  }
}

/** Return the response of a request that was granted; its body has not been read yet. */
export async function answer(verb, path, params, { signal, body, headers, timeout } = {}) {
  const late = AbortSignal.timeout(timeout ?? TIMEOUT_MS);
  const context = { verb, path: BASE + path };
  let response;
  try {
    response = await fetch(url(path, params), {
      method: verb.toUpperCase(),
      headers: { Accept: "application/json", ...headers },
      body,
      signal: signal ? AbortSignal.any([signal, late]) : late,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const reason = late.aborted ? "no answer in time" : "the console's server does not answer";
    throw new ApiError("unreachable", reason, context);
  }
  if (!response.ok) throw await refusal(response, context);
  return response;
}

/** Return the error that a response stands for; its body is a Kubernetes `Status`. */
async function refusal(response, context) {
  const text = await response.text().catch(() => "");
  let message = "";
  try {
    message = String(JSON.parse(text).message ?? "");
  } catch {
    message = text.slice(0, 300);
  }
  const kind = KINDS[response.status] ?? "failed";
  // A refusal names the path that rights are reviewed on, which is not that of the request.
  const [, verb, path] = /cannot (\w+) path "([^"]+)"/.exec(message) ?? [null, context.verb, context.path];
  return new ApiError(kind, message || `${response.status} ${response.statusText}`, {
    verb,
    path,
    status: response.status,
    retryAfter: Number(response.headers.get("Retry-After")) || 0,
  });
}
