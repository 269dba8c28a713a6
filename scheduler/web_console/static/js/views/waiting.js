/** The pods that wait: by phase and reason, grouped by owner or reason; and the page of a pod. */
import { html, useMemo, useState } from "../html.js";
import { getAll } from "../api.js";
import { summary } from "../documents.js";
import { useFetched } from "../fetched.js";
import { useLive } from "../live.js";
import { useStore } from "../store.js";
import { go, refine, route, to, useFilter } from "../route.js";
import { row, useShortcuts } from "../keyboard.js";
import { see } from "../palette.js";
import { age, useTicking } from "../clock.js";
import { count, duration, plural, requests } from "../format.js";
import { Choice, Empty, Filter, Meter, Node, Owner, Pod, Priority, Select, State, focusFilter, useFirst } from "../parts.js";
import { groups as grouped, matching, reasonOf } from "../waiting_groups.js";
import { PHASES } from "../terms.js";
import { PodPage } from "./pod.js";

const GROUPINGS = [["owner", "Owner"], ["reason", "Reason"], ["", "None"]];
/** Pods that are loaded at most; the filters of the server find others. */
const MOST_PODS = 5000;
const FIRST_OPEN_GROUPS = 3;

export function WaitingView() {
  const { parts } = useStore(route);
  if (parts.length === 2) return html`<${PodPage} key=${parts.join("/")} namespace=${parts[0]} name=${parts[1]} />`;
  return html`<${Queue} />`;
}

function Queue() {
  const { query } = useStore(route);
  const [filter, setFilter] = useFilter();
  useTicking(5);
  const { data: figures } = useLive(summary);
  const asked = { phase: query.get("phase") ?? "", reason: query.get("reason") ?? "" };
  const found = useFetched(
    `pods ${asked.phase} ${asked.reason}`,
    async (signal) => {
      const document = await getAll("/pods", { ...asked, limit: 1000 }, { signal, most: MOST_PODS });
      see(document.items.map((item) => item.pod.priority ?? 0));
      return document;
    },
    figures?.revision,
  );
  useShortcuts(
    [
      ["/", "Filter pods", focusFilter],
      ["Escape", "All phases and reasons", () => refine({ phase: "", reason: "" })],
    ],
    [],
  );
  const by = query.get("by") ?? "owner";
  return html`<div class="view with-side">
    <nav class="side" aria-label="Phases and reasons">
      <${Phases} figures=${figures} chosen=${asked.phase} />
      <${Reasons} figures=${figures} chosen=${asked.reason} />
    </nav>
    <${Narrow} figures=${figures} asked=${asked} />
    <div class="content">
      <div class="toolbar">
        <${Filter} value=${filter} onInput=${setFilter} placeholder="Filter pods" />
        <${Choice} label="Group by" options=${GROUPINGS} value=${by === "none" ? "" : by}
          onChange=${(/** @type {string} */ next) => refine({ by: next || "none" })} />
        <span class="grow"></span>
        ${found.data && html`<span class="totals">${totals(found.data)}</span>`}
      </div>
      ${found.data
        ? html`<${Pods} document=${found.data} by=${by} filter=${filter} />`
        : html`<p class="muted wait">${found.loading && !found.error ? "Loading pods …" : ""}</p>`}
    </div>
  </div>`;
}

/** @param {import("../api.js").Whole<"/pods">} document */
function totals({ items, remaining = 0, hidden = 0, requests: amounts }) {
  const text = [plural(items.length + remaining + hidden, "pod")];
  if (hidden) text.push(`${count(hidden)} hidden from you`);
  text.push(`${requests(amounts)} requested`);
  return text.join(", ");
}

/** @param {{figures: Api.Summary | null, chosen: string}} props */
function Phases({ figures, chosen }) {
  const queue = figures?.queue;
  const total = Object.values(queue ?? {}).reduce((sum, pods) => sum + pods, 0);
  return html`<h2>Phase</h2>
    <ul class="facets">
      <${Facet} text="All" pods=${counted(total, queue)} on=${!chosen} onClick=${() => refine({ phase: "" })} />
      ${PHASES.map(
        (phase) =>
          html`<${Facet} key=${phase} text=${html`<${State} value=${phase} />`} pods=${counted(queue?.[phase], queue)}
            on=${phase === chosen} onClick=${() => refine({ phase: phase === chosen ? "" : phase })} />`,
      )}
    </ul>`;
}

/** @param {{figures: Api.Summary | null, chosen: string}} props */
function Reasons({ figures, chosen }) {
  const { reasons = [], otherReasons = 0 } = figures ?? {};
  const largest = Math.max(1, ...reasons.map((each) => each.pods));
  return html`<h2>Reason</h2>
    <ul class="facets">
      ${reasons.map(
        ({ reason, pods }) =>
          html`<${Facet} key=${reason} text=${reason} pods=${count(pods)} part=${pods / largest} on=${reason === chosen}
            onClick=${() => refine({ reason: reason === chosen ? "" : reason })} />`,
      )}
      ${otherReasons > 0 && html`<li class="facet-rest muted">${plural(otherReasons, "pod")} for other reasons</li>`}
      ${figures && reasons.length === 0 && html`<li class="facet-rest muted">none</li>`}
    </ul>`;
}

/**
 * Phase and reason on pages that are too narrow for a column beside the list.
 *
 * @param {{figures: Api.Summary | null, asked: {phase: string, reason: string}}} props
 */
function Narrow({ figures, asked }) {
  const { queue, reasons = [] } = figures ?? {};
  /** @type {import("../parts.js").Options} */
  const phases = PHASES.map((phase) => [phase, `${phase} (${counted(queue?.[phase], queue)})`]);
  /** @type {import("../parts.js").Options} */
  const texts = reasons.map(({ reason, pods }) => [reason, `${reason} (${count(pods)})`]);
  return html`<div class="narrow toolbar">
    <${Select} label="Phase" id="phase" value=${asked.phase} options=${[["", "all"], ...phases]}
      onChange=${(/** @type {string} */ phase) => refine({ phase })} />
    <${Select} label="Reason" id="reason" value=${asked.reason} options=${[["", "all"], ...texts]}
      onChange=${(/** @type {string} */ reason) => refine({ reason })} />
  </div>`;
}

/**
 * Return a number of pods; what is not known is not 0.
 *
 * @param {number | undefined} pods
 * @param {object | undefined} known
 */
const counted = (pods, known) => (known ? count(pods ?? 0) : "–");

/** @param {{text: Content, pods: string, part?: number, on: boolean, onClick: () => void}} props */
function Facet({ text, pods, part, on, onClick }) {
  return html`<li>
    <button type="button" class="facet" aria-pressed=${on ? "true" : "false"} onClick=${onClick}>
      <span class="facet-text">${text}</span><span class="number">${pods}</span>
      ${part !== undefined && html`<${Meter} part=${part} tone="quiet" label="" />`}
    </button>
  </li>`;
}

/** @param {{document: import("../api.js").Whole<"/pods">, by: string, filter: string}} props */
function Pods({ document, by, filter }) {
  const found = useMemo(() => matching(document.items, filter), [document, filter]);
  const made = useMemo(() => grouped(found, by), [found, by]);
  if (document.items.length === 0) {
    return document.hidden
      ? html`<${Empty} title=${plural(document.hidden, "pod waits", "pods wait")}>
          You may not get pods in their namespaces, so they are counted and not named.
        <//>`
      : html`<${Empty} title="No pod waits">Pods that no node can take now would be here.${elsewhere(filter)}<//>`;
  }
  if (found.length === 0) return html`<${Empty} title="No pods">No pod matches the filter.${elsewhere(filter)}<//>`;
  return html`<table class="table rows waiting">
      <thead>
        <tr>
          <th>Pod</th><th>Priority</th><th>Phase</th><th class="number">Waits</th>
          <th class="number">Attempts</th><th>${by === "reason" ? "Owner" : "Reason"}</th><th>Requests</th>
        </tr>
      </thead>
      ${made.map((group, index) => html`<${Group} key=${group.key} group=${group} by=${by} open=${index < FIRST_OPEN_GROUPS || by === "none"} />`)}
    </table>
    ${document.remaining > 0 &&
    html`<p class="muted wait">${plural(document.remaining, "more pod")} not loaded: choose a phase or a reason.</p>`}`;
}

/**
 * Return a link to the page of a pod that does not wait, if a filter is the name of one.
 *
 * @param {string} filter
 */
function elsewhere(filter) {
  const [, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9.-]+)$/.exec(filter.trim()) ?? [];
  return name && html` <a class="node" href=${to("waiting", [namespace, name])}>Where is ${namespace}/${name}?</a>`;
}

/** @param {{group: ReturnType<typeof grouped>[number], by: string, open: boolean}} props */
function Group({ group, by, open: atFirst }) {
  const [open, setOpen] = useState(atFirst);
  const { items } = group;
  const [shown, more] = useFirst(items, 50);
  const alone = by === "none";
  return html`<tbody>
    ${!alone &&
    html`<tr class="group" ...${row(`group ${group.key}`, () => setOpen(!open))} aria-expanded=${open ? "true" : "false"}>
      <td colspan="2"><span class="twist">${open ? "▾" : "▸"}</span>${group.title}</td>
      <td class="muted">${plural(items.length, "pod")}, oldest</td>
      <td class="number">${duration(age(group.oldest))}</td>
      <td></td>
      <td></td>
      <td class="muted requests">${requests(group.requests, true)}</td>
    </tr>`}
    ${open && shown.map((item) => html`<${Row} key=${item.pod.uid || item.pod.name} item=${item} by=${by} />`)}
    ${open && more && html`<tr><td colspan="7">${more}</td></tr>`}
  </tbody>`;
}

/** @param {{item: Api.PendingPodView, by: string}} props */
function Row({ item, by }) {
  const { pod } = item;
  const open = () => !pod.hidden && go("waiting", [pod.namespace, pod.name]);
  return html`<tr ...${row(pod.uid || pod.name || "", open)}>
    <td class=${by === "none" ? "" : "inset"}><${Pod} pod=${pod} link /></td>
    <td><${Priority} value=${pod.priority} /></td>
    <td><${State} value=${item.phase} /></td>
    <td class="number">${duration(age(item.since))}</td>
    <td class="number">${item.attempts ?? 0}</td>
    <td class="reason" title=${item.message}>${by === "reason" ? html`<${Owner} owner=${pod.owner} />` : html`<${Reason} item=${item} />`}</td>
    <td class="muted requests">${requests(pod.requests, true)}</td>
  </tr>`;
}

/** @param {{item: Api.PendingPodView}} props */
function Reason({ item }) {
  if (item.nominatedNode) return html`waits for victims on <${Node} name=${item.nominatedNode} />`;
  return html`<span>${reasonOf(item)}</span>`;
}
