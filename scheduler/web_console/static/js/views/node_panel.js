/** The details of a node, beside the bars. */
import { html } from "../html.js";
import { get } from "../api.js";
import { useFetched } from "../fetched.js";
import { use } from "../cluster_layout.js";
import { amount, count, percent, plural, requests } from "../format.js";
import { Failure, Meter, Owner, Pod, Priority, useFirst } from "../parts.js";

/** @param {{name: string, node?: Api.NodeUsage, onClose: () => void}} props */
export function NodePanel({ name, node, onClose }) {
  // The view of the node is a new object whenever the node has changed.
  const found = useFetched(
    `node ${name}`,
    (signal) => get("/nodes/{name}", {}, { signal, names: [name] }),
    node,
  );
  const document = found.data;
  return html`<aside class="panel" aria-label=${`Node ${name}`}>
    <header class="panel-head">
      <div>
        <p class="panel-kind">Node</p>
        <h2>${name}</h2>
      </div>
      <button type="button" class="icon" aria-label="Close the details" title="Close (Esc)" onClick=${onClose}>✕</button>
    </header>
    ${found.error && !document && html`<${Failure} error=${found.error} reload=${found.reload} />`}
    ${document && html`<${Details} document=${document} />`}
  </aside>`;
}

/** @param {{document: Api.NodeDocument}} props */
function Details({ document }) {
  const { node, labels = {}, taints = [], pods = [], nominated = [] } = document;
  return html`<div class="panel-body">
    ${node.unschedulable && html`<p class="callout">The node is unschedulable (cordoned).</p>`}
    <div class="uses">
      ${Object.keys(node.resources ?? {}).map((resource) => {
        const { requested, allocatable, part } = use(node, resource);
        const text = `${amount(resource, requested)} of ${amount(resource, allocatable)}`;
        return html`<div class="use">
          <span>${resource}</span><span class="number">${text}</span>
          <${Meter} part=${part} label=${`${resource}: ${text}, ${percent(part)}`} />
        </div>`;
      })}
    </div>
    ${nominated.length > 0 && html`<${Pods} title="Nominated" pods=${nominated} link />`}
    <${Pods} title="Pods" pods=${pods} note=${hiddenNote(document.hidden)} />
    ${taints.length > 0 &&
    html`<h3>Taints</h3>
      <ul class="chips">${taints.map((taint) => html`<li class="chip">${taint}</li>`)}</ul>`}
    <h3>Labels</h3>
    <ul class="chips">
      ${Object.entries(labels).map(([key, value]) => html`<li class="chip"><span class="muted">${key}=</span>${value}</li>`)}
    </ul>
  </div>`;
}

/** @param {number} [hidden] */
function hiddenNote(hidden) {
  return hidden ? `${plural(hidden, "name")} hidden` : "";
}

/** @param {{title: string, pods: Api.PodView[], note?: string, link?: boolean}} props */
function Pods({ title, pods, note, link = false }) {
  const [shown, more] = useFirst([...pods].sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0)), 60);
  return html`<h3>${title} <span class="muted">${count(pods.length)}</span> ${note && html`<span class="note">${note}</span>`}</h3>
    <table class="table compact panel-pods">
      <thead>
        <tr><th>Pod</th><th>Priority</th></tr>
      </thead>
      <tbody>
        ${shown.map(
          (pod) =>
            html`<tr key=${pod.uid}>
              <td>
                <${Pod} pod=${pod} link=${link} />
                <div class="below">${!pod.hidden && requests(pod.requests)}</div>
                ${pod.owner && html`<div class="below"><${Owner} owner=${pod.owner} /></div>`}
              </td>
              <td><${Priority} value=${pod.priority} /></td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${more}`;
}
