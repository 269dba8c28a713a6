/** What each node says to a pod: groups of nodes by plugin, and the nodes one by one. */
import { html, useMemo, useState } from "../html.js";
import { nodesWith } from "../documents.js";
import { useLive } from "../live.js";
import { useFilter } from "../route.js";
import { NO_LABEL, chosenLabel, labelOptions, useLabels } from "../node_labels.js";
import { byName, count, hasWords, plural } from "../format.js";
import { Filter, Node, Select, useFirst } from "../parts.js";

/** @param {{nodes: Api.NodeVerdict[]}} props */
export function PerNode({ nodes }) {
  const [filter, setFilter] = useFilter();
  const found = nodes.filter(({ name, plugin, rejection }) => hasWords(filter, [name, plugin, rejection]));
  const [shown, more] = useFirst(found);
  return html`<${Groups} nodes=${nodes} />
    <div class="toolbar gap">
      <${Filter} value=${filter} onInput=${setFilter} placeholder="Filter nodes" />
      <span class="muted">${count(found.length)} of ${plural(nodes.length, "node")}</span>
    </div>
    <div class="scroll-x"><table class="table compact">
      <thead><tr><th>Node</th><th>Plugin</th><th>Why not</th><th>Why no preemption there</th></tr></thead>
      <tbody>
        ${shown.map(
          (node) => html`<tr key=${node.name}>
            <td><${Node} name=${node.name} /></td>
            <td class="muted">${node.plugin ?? ""}</td>
            <td>${node.rejection || html`<span class="state tone-good">fits, score ${count(node.total)}</span>`}</td>
            <td class="muted">${(node.vetoes ?? []).join("; ") || "–"}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>
    ${more}`;
}

/** @param {{nodes: Api.NodeVerdict[]}} props */
function Groups({ nodes }) {
  const [asked, setAsked] = useState(/** @type {string | null} */ (null));
  const labels = useLabels();
  const label = chosenLabel(asked, labels);
  return html`<div class="toolbar gap">
      <h3>Groups of nodes by plugin</h3>
      <${Select} label="Group by" id="group-by" value=${label || NO_LABEL} onChange=${setAsked}
        options=${labelOptions(labels.data?.items ?? [], label ?? "")} />
    </div>
    ${label !== undefined && html`<${Matrix} nodes=${nodes} label=${label} />`}`;
}

/** @param {{nodes: Api.NodeVerdict[], label: string}} props */
function Matrix({ nodes, label }) {
  const live = useLive(useMemo(() => nodesWith(label), [label]));
  const known = live.data?.nodes;
  const { plugins, rows } = useMemo(
    () => matrix(nodes, (name) => (label ? known?.get(name)?.labels?.[label] || `without ${label}` : "all nodes")),
    [nodes, label, known],
  );
  if (!known) return html`<p class="muted">${live.error ? "The labels of nodes cannot be read." : "Loading labels …"}</p>`;
  return html`<div class="scroll-x"><table class="table compact matrix">
    <thead>
      <tr>
        <th>${label || "Group"}</th><th class="number">Nodes</th><th class="number">Fit</th>
        ${plugins.map((plugin) => html`<th class="number" key=${plugin}>${plugin}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) => html`<tr key=${row.name}>
          <td>${row.name}</td>
          <td class="number">${count(row.nodes)}</td>
          <${Cell} nodes=${row.fit} of=${row.nodes} good />
          ${plugins.map((plugin) => html`<${Cell} key=${plugin} nodes=${row.rejected.get(plugin) ?? 0} of=${row.nodes} />`)}
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/**
 * A number of nodes; all of a group are in bold.
 *
 * @param {{nodes: number, of: number, good?: boolean}} props
 */
function Cell({ nodes, of: all, good = false }) {
  const style = nodes === 0 ? "pale" : nodes === all ? "all" : "";
  return html`<td class="number ${style} ${good && nodes > 0 ? "fits" : ""}">${count(nodes)}</td>`;
}

/**
 * @typedef {{name: string, nodes: number, fit: number, rejected: Map<string, number>}} MatrixRow
 */

/**
 * Count nodes by group and by the plugin that rejects them, the most frequent plugin first.
 *
 * @param {Api.NodeVerdict[]} nodes
 * @param {(name: string) => string} groupOf
 * @returns {{plugins: string[], rows: MatrixRow[]}}
 */
export function matrix(nodes, groupOf) {
  /** @type {Map<string, number>} */
  const totals = new Map();
  /** @type {Map<string, MatrixRow>} */
  const rows = new Map();
  for (const { name, plugin } of nodes) {
    const group = groupOf(name);
    const row = rows.get(group) ?? { name: group, nodes: 0, fit: 0, rejected: new Map() };
    rows.set(group, row);
    row.nodes += 1;
    if (!plugin) row.fit += 1;
    else {
      row.rejected.set(plugin, (row.rejected.get(plugin) ?? 0) + 1);
      totals.set(plugin, (totals.get(plugin) ?? 0) + 1);
    }
  }
  return {
    plugins: [...totals].sort((a, b) => b[1] - a[1]).map(([plugin]) => plugin),
    rows: [...rows.values()].sort((a, b) => byName(a.name, b.name)),
  };
}
