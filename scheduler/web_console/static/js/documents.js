/** The live documents that views share. */
import { Live } from "./live.js";
import { LARGEST_PAGE, get, getAll } from "./api.js";

/**
 * Return a document whose events are whole documents.
 *
 * @template {"/summary" | "/policies"} P
 * @param {P} path
 * @param {number} [verifySeconds]
 */
function whole(path, verifySeconds) {
  /** @typedef {Api.Get[P]["answer"]} Answer */
  return new Live(path, {
    load: (signal) => get(path, {}, { signal }),
    prepare: (/** @type {Answer} */ listed) => listed,
    merge: (/** @type {Answer} */ _previous, /** @type {Answer} */ event) => event,
    verifySeconds,
  });
}

/** Nothing is heard for long on a quiet cluster, so the summary also shows that the API answers. */
export const summary = whole("/summary", 25);

export const policies = whole("/policies");

/** @typedef {import("./api.js").Whole<"/preemptions">} Preemptions */

/** @type {Live<Preemptions, Preemptions, Api.PreemptionsDocument>} */
export const preemptions = new Live("/preemptions", {
  load: (signal) => getAll("/preemptions", { limit: 1000 }, { signal }),
  prepare: (listed) => listed,
  merge: (previous, event) => ({
    ...previous,
    revision: event.revision,
    items: mergeById(previous.items, event.items ?? []),
  }),
});

/**
 * Return the preemptions, newest first, after some of them have changed.
 *
 * @param {Api.PreemptionView[]} items
 * @param {Api.PreemptionView[]} changed
 */
export function mergeById(items, changed) {
  const byId = new Map(items.map((item) => [item.id, item]));
  for (const item of changed) byId.set(item.id, item);
  return [...byId.values()].sort((a, b) => (a.decidedAt < b.decidedAt ? 1 : -1));
}

/** @typedef {{revision: number, nodes: Map<string, Api.NodeUsage>}} Nodes */

/** @type {Map<string, Live<Nodes>>} */
const byLabel = new Map();

/**
 * Return the live nodes with the values of one label.
 *
 * Their data are `{revision, nodes}`; `nodes` is a map by name that is changed in place, because
 * a cluster has thousands of them.
 *
 * @param {string} label
 */
export function nodesWith(label) {
  let live = byLabel.get(label);
  if (!live) {
    const params = { labels: label, limit: LARGEST_PAGE };
    live = new Live("/nodes", {
      params,
      load: (signal) => getAll("/nodes", params, { signal }),
      prepare: (listed) => ({
        revision: listed.revision,
        nodes: new Map(listed.items.map((node) => [node.name, node])),
      }),
      merge: mergeNodes,
    });
    byLabel.set(label, live);
  }
  return live;
}

/**
 * @param {Nodes} previous
 * @param {Api.NodesDocument} event
 * @returns {Nodes}
 */
export function mergeNodes(previous, event) {
  for (const node of event.items ?? []) previous.nodes.set(node.name, node);
  for (const name of event.removed ?? []) previous.nodes.delete(name);
  return { revision: event.revision, nodes: previous.nodes };
}
