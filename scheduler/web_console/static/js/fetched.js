/** Documents that are requested when something has changed, for paths that have no watch. */
import { useEffect, useRef, useState } from "./html.js";
import { ApiError } from "./api.js";
import { backoff, forget, report } from "./health.js";

/**
 * @template T
 * @typedef {{data: T | null, error: ApiError | null, loading: boolean}} Shown
 */

/** The shortest time between two requests of one component. */
const LEAST_MS = 2000;

/**
 * Request a document, and again whenever `trigger` changes, at most every two seconds. The last
 * data stay while requests fail; those of another `key` do not.
 *
 * @template T
 * @param {string} key what is requested; empty for nothing
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown} trigger
 * @returns {Shown<T> & {reload: () => void}}
 */
export function useFetched(key, load, trigger) {
  const [state, setState] = useState(
    /** @type {Shown<T> & {key: string}} */ ({ key: "", data: null, error: null, loading: true }),
  );
  const source = useRef(/** @type {Fetching<T> | null} */ (null));
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (!key) return undefined;
    const fetching = new Fetching(() => loader.current, (change) =>
      setState((old) => ({ ...(old.key === key ? old : { data: null, error: null, loading: true }), key, ...change })),
    );
    source.current = fetching;
    fetching.ask();
    return () => fetching.close();
  }, [key]);
  useEffect(() => source.current?.ask(), [trigger]);
  const known = state.key === key ? state : { data: null, error: null, loading: Boolean(key) };
  return { ...known, reload: () => source.current?.ask(true) };
}

/**
 * The requests of one component.
 *
 * @template T
 */
class Fetching {
  /**
   * @param {() => (signal: AbortSignal) => Promise<T>} loader
   * @param {(change: Partial<Shown<T>>) => void} show
   */
  constructor(loader, show) {
    this.loader = loader;
    this.show = show;
    this.abort = new AbortController();
    this.last = 0;
    this.failures = 0;
    this.since = 0;
    this.fresh = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.running = false;
    this.again = false;
  }

  /** Request as soon as it is allowed; further calls until then are the same one. */
  ask(now = false) {
    if (this.running) {
      this.again = true;
      return;
    }
    if (now) clearTimeout(this.timer);
    else if (this.timer) return;
    const wait = now ? 0 : Math.max(0, this.last + LEAST_MS - Date.now());
    this.timer = setTimeout(() => this.fetch(), wait);
  }

  async fetch() {
    this.timer = undefined;
    this.again = false;
    this.running = true;
    this.last = Date.now();
    this.show({ loading: true });
    try {
      const data = await this.loader()(this.abort.signal);
      if (this.abort.signal.aborted) return;
      this.succeeded(data);
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.failed(error);
    } finally {
      this.running = false;
    }
    if (this.again && !this.timer) this.ask();
  }

  /** @param {T} data */
  succeeded(data) {
    this.failures = 0;
    this.fresh = Date.now();
    forget(this);
    this.show({ data, error: null, loading: false });
  }

  /** @param {unknown} problem */
  failed(problem) {
    const error = problem instanceof ApiError ? problem : new ApiError("failed", String(problem));
    if (this.failures === 0) this.since = Date.now();
    this.failures += 1;
    this.show({ error, loading: false });
    // An object that is gone, or a request that is wrong, stays so: the view says it.
    if (error.kind === "missing" || error.kind === "invalid") {
      forget(this);
      return;
    }
    const wait = backoff(this.failures, error);
    this.timer = setTimeout(() => this.fetch(), wait);
    const { since, fresh } = this;
    report(this, { error, since, fresh, retryAt: Date.now() + wait, retry: () => this.ask(true) });
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
    forget(this);
  }
}
