/** The address of a view is in the fragment: `#/cluster?by=zone`. */
import { Store } from "./store.js";

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
  history.replaceState(null, "", to(view, parts, merged));
  route.set(read());
}
