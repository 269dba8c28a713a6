/** The page: header, problems, figures, and the view that the address names. */
import { html, render, useEffect, useErrorBoundary } from "./html.js";
import { get, shadowMode } from "./api.js";
import { summary } from "./documents.js";
import { useLive } from "./live.js";
import { useStore } from "./store.js";
import { go, route, to } from "./route.js";
import { switchTheme, theme } from "./theme.js";
import { useShortcuts } from "./keyboard.js";
import { see } from "./palette.js";
import { short } from "./format.js";
import { Banner, Connection, Figures, Target } from "./head.js";
import { target } from "./target.js";
import { Empty } from "./parts.js";
import { HelpButton, RecordingButton, SignOutButton } from "./dialogs.js";
import { ClusterView } from "./views/cluster.js";
import { WaitingView } from "./views/waiting.js";
import { PreemptionsView } from "./views/preemptions.js";
import { PoliciesView } from "./views/policies.js";
import { ShadowView } from "./views/shadow.js";
import { WhatIfView } from "./views/what_if.js";

/**
 * @typedef {object} View
 * @property {string} key in the address
 * @property {string} title
 * @property {() => Content} view
 * @property {number} [names] how many names an address of this view may have besides the view
 * @property {(data: Api.Summary) => number | undefined} [badge]
 */

/** @type {View[]} */
const VIEWS = [
  { key: "cluster", title: "Cluster", view: ClusterView },
  { key: "waiting", title: "Waiting", view: WaitingView, names: 2, badge: waiting },
  { key: "preemptions", title: "Preemptions", view: PreemptionsView, names: 1, badge: (data) => data.preemptionsActive },
  { key: "policies", title: "Policies", view: PoliciesView },
  { key: "what-if", title: "What if", view: WhatIfView },
  // Shown in shadow mode only; its address is always known.
  { key: "shadow", title: "Shadow", view: ShadowView },
];

/** @type {View} */
const UNKNOWN = { key: "", title: "No such page", view: UnknownView };

function UnknownView() {
  useStore(route);
  return html`<${Empty} title="There is no such page">
    <code>${location.hash}</code> is not an address of this console. Its views are above.
  <//>`;
}

/** @param {Api.Summary} summary */
function waiting({ queue }) {
  return Object.values(queue).reduce((sum, pods) => sum + pods, 0);
}

function App() {
  const { view, parts } = useStore(route);
  const mode = useStore(theme);
  const { data } = useLive(summary);
  const named = VIEWS.find((each) => each.key === view && [0, each.names].includes(parts.length));
  const current = named ?? UNKNOWN;
  const inShadow = useStore(shadowMode);
  const shown = VIEWS.filter(({ key }) => inShadow || key !== "shadow");
  /** @type {import("./keyboard.js").Binding[]} */
  const keys = shown.map(({ key, title }, index) => [String(index + 1), title, () => go(key)]);
  useShortcuts([...keys, ["t", "Dark or light", switchTheme]], [inShadow]);
  useEffect(() => {
    const part = named && parts.length > 0 ? parts.at(-1) : "";
    document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    document.title = [part, current.title, target.name, "preemptive-scheduler"].filter(Boolean).join(" · ");
  }, [current, parts.join("/"), inShadow, Boolean(data)]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the view</a>
    <header class="bar">
      <a class="brand" href=${to("cluster")}>
        <img src="icon.svg" alt="" width="20" height="20" /><span>preemptive-scheduler</span>
      </a>
      <nav aria-label="Views">
        ${shown.map(({ key, title, badge }) => {
          const number = (data && badge?.(data)) ?? 0;
          return html`<a href=${to(key)} aria-current=${key === current.key ? "page" : undefined}>
            ${title}${number > 0 && html`<span class="badge">${short(number)}</span>`}
          </a>`;
        })}
      </nav>
      <${Target} />
      <div class="tools">
        <${Connection} />
        <${RecordingButton} />
        <button type="button" class="icon" onClick=${switchTheme} aria-label=${`Switch to ${mode === "dark" ? "light" : "dark"}`} title="Dark or light (t)">
          ${mode === "dark" ? "☾" : "☀"}
        </button>
        <${HelpButton} />
        <${SignOutButton} />
      </div>
    </header>
    <${Banner} />
    <${Figures} />
    <main id="main" tabindex="-1"><${Guarded} key=${current.key} view=${current.view} /></main>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/**
 * A view; a defect in it leaves the rest of the page usable.
 *
 * @param {{view: () => Content}} props
 */
function Guarded({ view: View }) {
  const [error, reset] = useErrorBoundary();
  if (error) {
    console.error(error);
    return html`<div class="failure" role="alert">
      <p>This view failed: ${String(error.message ?? error)}</p>
      <button type="button" onClick=${reset}>Show it again</button>
    </div>`;
  }
  return html`<${View} />`;
}

/** Nodes whose priorities are taken into the scale at first. */
const SOME_NODES = 200;

/**
 * Take priorities of some nodes into the scale, so that colours are the same whichever view is
 * opened first.
 */
async function seePriorities() {
  try {
    const { items = [] } = await get("/nodes", { limit: SOME_NODES });
    see(items.flatMap((node) => (node.priorities ?? []).map((each) => each.priority)));
  } catch {
    // The view that is shown says what fails.
  }
}

// The cluster view loads all nodes.
if (route.value.view !== "cluster") seePriorities();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
