/** Dark or light: that of the system until the switch is used. */
import { Store } from "./store.js";
import { remember, remembered } from "./storage.js";

const KEY = "theme";
const preferred = matchMedia("(prefers-color-scheme: light)");

/** @typedef {"dark" | "light"} Theme */

/** @returns {Theme} */
function current() {
  const kept = remembered(KEY);
  return kept === "dark" || kept === "light" ? kept : preferred.matches ? "light" : "dark";
}

export const theme = new Store(current());

function apply() {
  theme.set(current());
  document.documentElement.dataset.theme = theme.value;
}

export function switchTheme() {
  const next = theme.value === "dark" ? "light" : "dark";
  remember(KEY, next);
  theme.set(next);
  document.documentElement.dataset.theme = next;
}

preferred.addEventListener("change", apply);
apply();
