/**
 * What is wrong with the data on the page: each source of data reports its state here, and the
 * banner shows the worst. A source keeps its last data while it fails.
 */
import { Store } from "./store.js";

/**
 * The state of a source: `error` (an ApiError or null), `since` (when it began to fail), `fresh`
 * (when data arrived last, 0 for never), `retryAt` (when it tries again). Milliseconds of the
 * browser's clock. `retry` tries at once.
 */
export const sources = new Store(new Map());

export function report(source, state) {
  sources.value.set(source, state);
  sources.changed();
}

export function forget(source) {
  if (sources.value.delete(source)) sources.changed();
}

/** Return what fails, as one entry for each kind of error. */
export function problems() {
  const found = new Map();
  for (const state of sources.value.values()) {
    if (!state.error) continue;
    const known = found.get(state.error.kind);
    if (known) merge(known, state);
    else {
      const entry = { key: state.error.kind, ...state, retries: [state.retry] };
      found.set(entry.key, { ...entry, paths: new Set([state.error.path]) });
    }
  }
  return [...found.values()];
}

function merge(known, state) {
  known.paths.add(state.error.path);
  known.since = Math.min(known.since, state.since);
  if (state.fresh) known.fresh = known.fresh ? Math.min(known.fresh, state.fresh) : state.fresh;
  known.retryAt = Math.min(known.retryAt, state.retryAt);
  known.retries.push(state.retry);
}

/** Return how long to wait before the next attempt, in milliseconds. */
export function backoff(failures, error) {
  const slow = error?.kind === "forbidden" || error?.kind === "unauthorized";
  const seconds = slow ? 30 : Math.min(30, 2 ** Math.min(failures - 1, 5));
  const jitter = 0.8 + 0.4 * Math.random();
  return Math.max(seconds * jitter, error?.retryAfter ?? 0) * 1000;
}
