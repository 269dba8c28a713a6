/** Requests to `/api/v1`, and what can be wrong with them. */

import { Store } from "./store.js";
import { target } from "./target.js";

const BASE = "/api/v1";
/** After this time an answer is not waited for any longer. */
const TIMEOUT_MS = 20_000;
const SERVER_GONE =
  target.session === "key"
    ? "The server of this page does not answer. If kubectl preemptive console has ended, start it again and open the address that it prints."
    : "The server of this page does not answer.";
/** Whether the scheduler that answered last runs in shadow mode. */
export const shadowMode = new Store(false);
/** The most that the server gives in one page. */
export const LARGEST_PAGE = 5000;

/**
 * Paths below `/api/v1`, as `docs/openapi.json` describes them, and what can be asked with them.
 *
 * @typedef {keyof Api.Get} Path with names in braces
 * @typedef {Record<string, string | number | null | undefined>} Params
 * @typedef {{signal?: AbortSignal, body?: string, headers?: Record<string, string>, timeout?: number}} Options
 */

/**
 * Lists that come in pages, and what they are together.
 *
 * @typedef {"/nodes" | "/pods" | "/preemptions"} Paged
 * @typedef {{items?: any[], continue?: string, remaining?: number}} Page
 */
/**
 * @template {Paged} P
 * @typedef {Api.Get[P]["answer"] & Required<Pick<Api.Get[P]["answer"], "items" | "remaining" | "continue">>} Whole
 */

/**
 * What can be wrong; `unreachable` is no answer, or none that is ours.
 *
 * @typedef {"unreachable" | "forbidden" | "unauthorized" | "missing" | "invalid" | "busy" | "unavailable" | "failed"} Kind
 */

/** A request that failed. */
export class ApiError extends Error {
  /**
   * @param {Kind} kind
   * @param {string} message
   * @param {{status?: number, verb?: string, path?: string, retryAfter?: number}} [details]
   */
  constructor(kind, message, { status = 0, verb = "get", path = "", retryAfter = 0 } = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.verb = verb;
    this.path = path;
    this.retryAfter = retryAfter;
  }
}

/** @type {Record<number, Kind>} */
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

/**
 * Return the URL of a path below `/api/v1`; empty parameters are left out.
 *
 * @param {string} path
 * @param {Params} [params]
 */
export function url(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

/**
 * Return a document.
 *
 * @template {Path} P
 * @param {P} path
 * @param {Api.Get[P]["query"]} params
 * @param {{signal?: AbortSignal, names?: Api.Get[P]["names"]}} [options] `names` are those of the
 *   path, in order and whatever characters they have
 * @returns {Promise<Api.Get[P]["answer"]>}
 */
export function get(path, params, { signal, names } = {}) {
  /** @type {string[]} */
  const rest = [...(names ?? [])];
  const filled = path.replace(/\{\w+\}/g, () => encodeURIComponent(rest.shift() ?? ""));
  return request("get", filled, params, { signal });
}

/**
 * Return a document whose list is in pages as a whole; `params.limit` is that of one page.
 *
 * @template {Paged} P
 * @param {P} path
 * @param {Api.Get[P]["query"]} params
 * @param {{signal?: AbortSignal, most?: number}} [options]
 * @returns {Promise<Whole<P>>}
 */
export async function getAll(path, params, { signal, most = Infinity } = {}) {
  /** @type {Page} */
  const first = await get(path, params, { signal });
  const items = first.items ?? [];
  let last = first;
  while (last.continue && items.length < most) {
    last = await get(path, { ...params, continue: last.continue }, { signal });
    for (const item of last.items ?? []) items.push(item);
  }
  // The revision is that of the first page: changes since then are sent again, which is harmless.
  const whole = { ...first, items, remaining: last.remaining ?? 0, continue: last.continue ?? "" };
  return /** @type {any} */ (whole);
}

/**
 * @template {keyof Api.Post} P
 * @param {P} path
 * @param {Api.Post[P]["body"]} body
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<Api.Post[P]["answer"]>}
 */
export function post(path, body, { signal } = {}) {
  return request("post", path, {}, {
    signal,
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    timeout: 120_000,
  });
}

/**
 * @param {string} verb
 * @param {string} path
 * @param {Params} params
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
async function request(verb, path, params, { signal, body, headers, timeout } = {}) {
  const response = await answer(verb, path, params, { signal, body, headers, timeout });
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("unreachable", "the response is not complete", { verb, path: BASE + path });
  }
}

/**
 * Return the response of a request that was granted; its body has not been read yet.
 *
 * @param {string} verb
 * @param {string} path
 * @param {Params} params
 * @param {Options} [options]
 */
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
    const reason = late.aborted ? "no response in time" : SERVER_GONE;
    throw new ApiError("unreachable", reason, context);
  }
  if (!response.ok) throw await refusal(response, context);
  shadowMode.set(response.headers.get("Preemptive-Scheduler-Mode") === "shadow");
  return response;
}

/**
 * Return the error that a response stands for; its body is a Kubernetes `Status`.
 *
 * @param {Response} response
 * @param {{verb: string, path: string}} context
 */
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
