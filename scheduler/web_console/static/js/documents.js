/** The live documents that views share. */
import { Live } from "./live.js";
import { LARGEST_PAGE } from "./api.js";

/** Nothing is heard for long on a quiet cluster, so the summary also shows that the API answers. */
export const summary = new Live("/summary", { verifySeconds: 25 });

export const policies = new Live("/policies");

export const preemptions = new Live("/preemptions", {
  params: { limit: 1000 },
  paged: true,
  merge: (previous, event) => ({
    ...previous,
    revision: event.revision,
    items: mergeById(previous.items, event.items ?? []),
  }),
});

/** Return the preemptions, newest first, after some of them have changed. */
export function mergeById(items, changed) {
  const byId = new Map(items.map((item) => [item.id, item]));
  for (const item of changed) byId.set(item.id, item);
  return [...byId.values()].sort((a, b) => (a.decidedAt < b.decidedAt ? 1 : -1));
}

const byLabel = new Map();

/**
 * Return the live nodes with the values of one label.
 *
 * Their data are `{revision, nodes}`; `nodes` is a map by name that is changed in place, because
 * a cluster has thousands of them.
 */
export function nodesWith(label) {
  let live = byLabel.get(label);
  if (!live) {
    live = new Live("/nodes", {
      params: { labels: label, limit: LARGEST_PAGE },
      paged: true,
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

export function mergeNodes(previous, event) {
  for (const node of event.items ?? []) previous.nodes.set(node.name, node);
  for (const name of event.removed ?? []) previous.nodes.delete(name);
  return { revision: event.revision, nodes: previous.nodes };
}
