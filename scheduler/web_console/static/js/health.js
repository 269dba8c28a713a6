/**
 * What is wrong with the data on the page: each source of data reports its state here, and the
 * banner shows the worst. A source keeps its last data while it fails.
 */
import { Store } from "./store.js";

/** @typedef {import("./api.js").ApiError} ApiError */

/**
 * The state of a source: `since` is when it began to fail, `fresh` when data arrived last (0 for
 * never), `retryAt` when it tries again, in milliseconds of the browser's clock. `retry` tries at
 * once.
 *
 * @typedef {{error: ApiError | null, since: number, fresh: number, retryAt: number, retry: () => void}} State
 * @typedef {State & {error: ApiError, key: string, retries: (() => void)[], paths: Set<string>}} Problem
 */

export const sources = new Store(/** @type {Map<object, State>} */ (new Map()));

/**
 * @param {object} source
 * @param {State} state
 */
export function report(source, state) {
  sources.value.set(source, state);
  sources.changed();
}

/** @param {object} source */
export function forget(source) {
  if (sources.value.delete(source)) sources.changed();
}

/**
 * Return what fails, as one entry for each kind of error. Without a session
 * nothing can be asked, so an end of the session is the only entry then.
 *
 * @returns {Problem[]}
 */
export function problems() {
  /** @type {Map<string, Problem>} */
  const found = new Map();
  for (const state of sources.value.values()) {
    const { error } = state;
    if (!error) continue;
    const known = found.get(error.kind);
    if (known) merge(known, state, error);
    else found.set(error.kind, { ...state, error, key: error.kind, retries: [state.retry], paths: new Set([error.path]) });
  }
  const unauthorized = found.get("unauthorized");
  return unauthorized ? [unauthorized] : [...found.values()];
}

/**
 * @param {Problem} known
 * @param {State} state
 * @param {ApiError} error
 */
function merge(known, state, error) {
  known.paths.add(error.path);
  known.since = Math.min(known.since, state.since);
  if (state.fresh) known.fresh = known.fresh ? Math.min(known.fresh, state.fresh) : state.fresh;
  known.retryAt = Math.min(known.retryAt, state.retryAt);
  known.retries.push(state.retry);
}

/**
 * Return how long to wait before the next attempt, in milliseconds.
 *
 * @param {number} failures
 * @param {ApiError | null} error
 */
export function backoff(failures, error) {
  const slow = error?.kind === "forbidden" || error?.kind === "unauthorized";
  const seconds = slow ? 30 : Math.min(30, 2 ** Math.min(failures - 1, 5));
  const jitter = 0.8 + 0.4 * Math.random();
  return Math.max(seconds * jitter, error?.retryAfter ?? 0) * 1000;
}
