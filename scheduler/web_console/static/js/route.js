/** The address of a view is in the fragment: `#/cluster?by=zone`. */
import { Store, useStore } from "./store.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { view: parts[0] ?? "cluster", parts: parts.slice(1), query: new URLSearchParams(query) };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = new Store(read());
window.addEventListener("hashchange", () => route.set(read()));

/**
 * The addresses of lists as they were left, with filters and order, by view.
 *
 * @type {Map<string, string>}
 */
const lists = new Map();
route.subscribe(noteList);
noteList();

function noteList() {
  const { view, parts, query } = route.value;
  if (parts.length === 0) lists.set(view, to(view, [], Object.fromEntries(query)));
}

/**
 * Return the address of the list of a view as it was left.
 *
 * @param {string} view
 */
export const toList = (view) => lists.get(view) ?? to(view);

/** @param {string} view */
export function goToList(view) {
  location.hash = toList(view);
}

/**
 * Return the address of a view.
 *
 * @param {string} view
 * @param {(string | undefined)[]} [parts]
 * @param {Record<string, string>} [query]
 */
export function to(view, parts = [], query = {}) {
  const path = [view, ...parts].map((part = "") => encodeURIComponent(part)).join("/");
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** @param {Parameters<typeof to>} address */
export function go(...address) {
  location.hash = to(...address);
}

/**
 * Change parameters of the current view, without a new entry in the browser's history.
 *
 * @param {Record<string, string>} changes
 */
export function refine(changes) {
  const { view, parts, query } = route.value;
  const merged = { ...Object.fromEntries(query), ...changes };
  try {
    history.replaceState(null, "", to(view, parts, merged));
  } catch {
    // Browsers refuse too many changes in a short time; the next one will be in the address.
  }
  const kept = Object.entries(merged).filter(([, value]) => value);
  route.set({ view, parts, query: new URLSearchParams(kept) });
}

/**
 * Return the text of the filter of the current view, and a function that changes it.
 *
 * @returns {[filter: string, change: (filter: string) => void]}
 */
export function useFilter() {
  const { query } = useStore(route);
  return [query.get("q") ?? "", (q) => refine({ q })];
}
