/** Shortcuts, and the selection of rows. The keys of a view are added while it is shown. */
import { Store } from "./store.js";
import { useEffect } from "./html.js";

/**
 * `run` returns false where the key means nothing there.
 *
 * @typedef {{text: string, run: (event: KeyboardEvent) => void | boolean}} Shortcut
 * @typedef {[key: string, text: string, run: Shortcut["run"]]} Binding
 */

/** By key; the help lists those with a text in this order. */
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
  if (place instanceof HTMLElement && place.matches("[data-row]") && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    place.click();
    return;
  }
  const found = shortcuts.value.get(event.key);
  if (!found) return;
  if (found.run(event) !== false) event.preventDefault();
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
 * The row that was selected last: its key, and its place, for when it is gone. A row is an element
 * with `data-row`, and the selected one has the focus.
 */
let chosen = { key: "", at: 0 };

/**
 * Return the attributes of a row that opens something; links and buttons in it keep their clicks.
 *
 * @param {string} key
 * @param {() => void} open
 */
export function row(key, open) {
  return {
    "data-row": key,
    tabindex: 0,
    onClick: (/** @type {MouseEvent} */ event) => {
      if (!(event.target instanceof Element && event.target.closest("a, button"))) open();
    },
  };
}

/** @returns {HTMLElement[]} */
const rowsNow = () => [...document.querySelectorAll("main [data-row]")].filter((each) => each instanceof HTMLElement);

/** @param {EventTarget | null} place */
const rowAt = (place) => (place instanceof Element ? place.closest("[data-row]") : null);

/** @type {[key: string, step: number, onMap: string][]} */
const MOVES = [
  ["j", 1, "ArrowDown"],
  ["k", -1, "ArrowUp"],
  ["ArrowDown", 1, "ArrowDown"],
  ["ArrowUp", -1, "ArrowUp"],
  ["Home", -Infinity, ""],
  ["End", Infinity, ""],
];

/**
 * Move by rows, wherever the focus is. Without a selection, the next row is the one at the place
 * of the last selection, else the first one that is not the head of an open group.
 *
 * @param {number} step
 */
function moveRows(step) {
  const rows = rowsNow();
  if (rows.length === 0) return false;
  const last = rows.length - 1;
  const now = rows.findIndex((each) => each === rowAt(document.activeElement));
  const first = rows.findIndex((each) => each.getAttribute("aria-expanded") !== "true");
  const place = chosen.key ? chosen.at : first;
  const next = now < 0 && Number.isFinite(step) ? place : now + step;
  rows[Math.min(last, Math.max(0, next))].focus();
  return true;
}

/**
 * Give a key to the map of nodes.
 *
 * @param {string} key
 */
function moveOnMap(key) {
  const map = document.querySelector("main [data-arrows]");
  if (!(map instanceof HTMLElement)) return false;
  map.focus();
  map.dispatchEvent(new KeyboardEvent("keydown", { key }));
  return true;
}

document.addEventListener("focusin", ({ target }) => {
  const found = rowAt(target);
  if (!(found instanceof HTMLElement)) return;
  chosen = { key: found.dataset.row ?? "", at: rowsNow().indexOf(found) };
});
document.addEventListener("pointerdown", ({ target }) => {
  if (!rowAt(target)) chosen = { key: "", at: 0 };
});
// A browser takes the focus from a row that an update moves, and from one whose page was opened.
new MutationObserver(() => {
  if (!chosen.key || document.activeElement !== document.body) return;
  rowsNow().find((each) => each.dataset.row === chosen.key)?.focus({ preventScroll: true });
}).observe(document.body, { childList: true, subtree: true });

for (const [key, step, onMap] of MOVES) {
  shortcuts.value.set(key, { text: "", run: () => moveRows(step) || moveOnMap(onMap) });
}
