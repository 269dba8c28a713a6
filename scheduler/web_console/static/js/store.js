/** A value that components subscribe to. */
import { useEffect, useState } from "./html.js";

/** @template T */
export class Store {
  /** @param {T} value the first value */
  constructor(value) {
    this.value = value;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    this.changed();
  }

  /** Tell the listeners, also where the value itself was changed in place. */
  changed() {
    for (const listener of [...this.listeners]) listener();
  }

  /**
   * @param {() => void} listener
   * @returns a function that ends the subscription
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

/**
 * Return the value of a store, and render again when it changes.
 *
 * @template T
 * @param {Store<T>} store
 */
export function useStore(store) {
  const [, render] = useState(0);
  useEffect(() => {
    // The value may have changed between the first rendering and this effect.
    render((count) => count + 1);
    return store.subscribe(() => render((count) => count + 1));
  }, [store]);
  return store.value;
}
