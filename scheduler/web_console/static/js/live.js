/**
 * Documents of the API that are kept up to date.
 *
 * A document is listed, then watched by server-sent events. When the watch ends, for whatever
 * reason, the document is listed again: the next answer may come from another replica, whose
 * revisions are not comparable. The last data stay while the API fails. Nothing is requested
 * while no component uses the document, or while the page is hidden.
 */
import { useEffect, useState } from "./html.js";
import { ApiError, url } from "./api.js";
import { backoff, forget, report } from "./health.js";

/** For how long a document is kept up to date after the last component that used it is gone. */
const LINGER_MS = 4000;
/** Hidden pages hold their connections for this long; browsers allow six to one server. */
const HIDDEN_MS = 20_000;
/** A watch that lasted for less counts as a failure, so that lists are not repeated at once. */
const SHORT_WATCH_MS = 5000;

/** @typedef {"/summary" | "/nodes" | "/preemptions" | "/policies"} Watched paths that have a watch */

/**
 * How a document is kept up to date: `load` lists it, `prepare` makes the data from the list, and
 * `merge` applies an event to the data. After `verifySeconds` without an event the document is
 * listed again, which finds out that a silent connection is dead.
 *
 * @template Listed, Event, Data
 * @typedef {object} Following
 * @property {import("./api.js").Params} [params] of the list and of the watch
 * @property {(signal: AbortSignal) => Promise<Listed>} load
 * @property {(listed: Listed) => Data} prepare
 * @property {(previous: Data, event: Event) => Data} merge
 * @property {number} [verifySeconds]
 */

/**
 * @template {{revision: number}} Data
 * @template [Listed=any]
 * @template [Event=any]
 */
export class Live {
  /**
   * @param {Watched} path
   * @param {Following<Listed, Event, Data>} following
   */
  constructor(path, { params = {}, load, prepare, merge, verifySeconds = 0 }) {
    this.path = path;
    this.params = params;
    this.list = load;
    this.prepare = prepare;
    this.merge = merge;
    this.verifySeconds = verifySeconds;
    /** @type {Data | null} */
    this.data = null;
    /** @type {ApiError | null} */
    this.error = null;
    this.since = 0;
    this.fresh = 0;
    this.retryAt = 0;
    this.failures = 0;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {number | undefined} */
    this.stopping = undefined;
    /** @type {number | undefined} */
    this.leaveHidden = undefined;
    /** @type {AbortController | null} */
    this.run = null;
    /** @type {(() => void) | undefined} ends the pause between two attempts */
    this.wake = undefined;
    this.onVisibility = () => this.visibilityChanged();
  }

  /** @param {() => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
    clearTimeout(this.stopping);
    this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.stopping = setTimeout(() => this.close(), LINGER_MS);
    };
  }

  start() {
    if (this.run) return;
    document.addEventListener("visibilitychange", this.onVisibility);
    this.run = new AbortController();
    this.keepUp(this.run.signal);
  }

  stop() {
    this.run?.abort();
    this.run = null;
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.stop();
    this.error = null;
    forget(this);
  }

  visibilityChanged() {
    clearTimeout(this.leaveHidden);
    if (document.hidden) this.leaveHidden = setTimeout(() => this.stop(), HIDDEN_MS);
    else if (this.listeners.size > 0) this.start();
  }

  /** End the pause between two attempts. */
  retry = () => this.wake?.();

  /** @param {AbortSignal} signal */
  async keepUp(signal) {
    while (!signal.aborted) {
      try {
        this.update(this.prepare(await this.list(signal)));
        const began = performance.now();
        await this.watch(signal);
        if (performance.now() - began > SHORT_WATCH_MS) this.failures = 0;
        else this.failures += 1;
      } catch (error) {
        if (signal.aborted) return;
        this.fail(error);
      }
      await this.pause(backoff(Math.max(1, this.failures), this.error), signal);
    }
  }

  /**
   * Apply events until the watch ends or the API asks to list again.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  watch(signal) {
    const revision = this.data?.revision;
    const stream = new EventSource(url(this.path, { ...this.params, watch: 1, revision }));
    return new Promise((resolve) => {
      /** @type {number | undefined} */
      let silence;
      const end = () => {
        clearTimeout(silence);
        stream.close();
        resolve();
      };
      const heard = () => {
        clearTimeout(silence);
        if (this.verifySeconds) silence = setTimeout(end, this.verifySeconds * 1000);
      };
      heard();
      signal.addEventListener("abort", end, { once: true });
      stream.addEventListener("resync", end);
      stream.addEventListener("error", end);
      stream.addEventListener("update", (event) => {
        heard();
        try {
          if (this.data) this.update(this.merge(this.data, JSON.parse(event.data)));
        } catch {
          end();
        }
      });
    });
  }

  /** @param {Data} data */
  update(data) {
    this.data = data;
    this.fresh = Date.now();
    this.error = null;
    this.changed();
  }

  /** @param {unknown} error */
  fail(error) {
    if (!this.error) this.since = Date.now();
    this.failures += 1;
    this.error = error instanceof ApiError ? error : new ApiError("failed", String(error));
  }

  /**
   * @param {number} milliseconds
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  pause(milliseconds, signal) {
    this.retryAt = Date.now() + milliseconds;
    this.changed();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      const wake = () => {
        clearTimeout(timer);
        resolve();
      };
      this.wake = wake;
      signal.addEventListener("abort", wake, { once: true });
    });
  }

  changed() {
    const { error, since, fresh, retryAt, retry } = this;
    report(this, { error, since, fresh, retryAt, retry });
    for (const listener of [...this.listeners]) listener();
  }
}

/**
 * Subscribe to a live document, and return it; `data` is null until it arrived.
 *
 * @template {Live<any>} L
 * @param {L} live
 * @returns {L}
 */
export function useLive(live) {
  const [, render] = useState(0);
  useEffect(() => live.subscribe(() => render((count) => count + 1)), [live]);
  return live;
}
