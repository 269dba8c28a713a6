/** Shortcuts. Those of a view are added while it is shown. */
import { Store } from "./store.js";
import { useEffect } from "./html.js";

/**
 * @typedef {{text: string, run: (event: KeyboardEvent) => void}} Shortcut
 * @typedef {[key: string, text: string, run: Shortcut["run"]]} Binding
 */

/** By key; the help lists them in this order. */
export const shortcuts = new Store(/** @type {Map<string, Shortcut>} */ (new Map()));

const TYPING = "input, textarea, select, [contenteditable]";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const place = event.target;
  if (place instanceof HTMLElement && place.closest(TYPING)) {
    if (event.key === "Escape") place.blur();
    return;
  }
  // A dialog has its own keys: the browser closes it with Escape.
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const found = shortcuts.value.get(event.key);
  if (!found) return;
  event.preventDefault();
  found.run(event);
});

/**
 * Add shortcuts for as long as the component is shown.
 *
 * @param {Binding[]} list
 * @param {unknown[]} dependencies
 */
export function useShortcuts(list, dependencies) {
  useEffect(() => {
    const added = list.map(([key, text, run]) => ({ key, entry: { text, run } }));
    for (const { key, entry } of added) shortcuts.value.set(key, entry);
    shortcuts.changed();
    return () => {
      for (const { key, entry } of added) {
        if (shortcuts.value.get(key) === entry) shortcuts.value.delete(key);
      }
      shortcuts.changed();
    };
  }, dependencies);
}

/**
 * Move between the rows of a table with the arrow keys, `j` and `k`, Home and End. Rows are the
 * elements with `data-row`; Enter and the space bar click them.
 *
 * @param {KeyboardEvent & {currentTarget: HTMLElement}} event
 */
export function onRowKeys(event) {
  const row = event.target;
  if (!(row instanceof HTMLElement) || !row.matches("[data-row]")) return;
  const found = event.currentTarget.querySelectorAll("[data-row]");
  const rows = /** @type {HTMLElement[]} */ ([...found]);
  const at = rows.indexOf(row);
  /** @type {Record<string, number>} */
  const moves = {
    ArrowDown: at + 1,
    j: at + 1,
    ArrowUp: at - 1,
    k: at - 1,
    Home: 0,
    End: rows.length - 1,
  };
  if (event.key === "Enter" || event.key === " ") row.click();
  else if (event.key in moves) rows[Math.min(rows.length - 1, Math.max(0, moves[event.key]))].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
