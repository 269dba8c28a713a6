/** Groups of pending pods: pure functions. */
import { byName, hasWords, podName } from "./format.js";

const NODES = /^0\/\d+ nodes are available: (.*?)\.?(?: preemption: .*)?$/s;

/**
 * Return the main reason of a pod: of a message like `0/5 nodes are available: 3 Insufficient
 * cpu, 2 node(s) had untolerated taint(s).` that of most nodes, of others the message.
 *
 * @param {{message?: string, phase?: string}} item
 */
export function reasonOf({ message = "", phase = "" }) {
  const parts = NODES.exec(message)?.[1];
  if (!parts) return message || (phase === "active" ? "not tried yet" : "–");
  let [best, most] = ["", -1];
  for (const part of parts.split(/, (?=\d+ )/)) {
    const [, nodes, reason] = /^(\d+) (.*)$/s.exec(part) ?? [null, "0", part];
    if (Number(nodes) > most) [best, most] = [reason, Number(nodes)];
  }
  return best.replace(/\.$/, "");
}

/**
 * Return the pods in whose names, owner, message or plugins all words occur.
 *
 * @param {Api.PendingPodView[]} items
 * @param {string} filter
 */
export function matching(items, filter) {
  if (!filter.trim()) return items;
  return items.filter(({ pod, message, rejectedBy = [] }) => {
    const owner = pod.owner ? `${pod.owner.kind}/${pod.owner.name}` : "";
    return hasWords(filter, [podName(pod), owner, message, ...rejectedBy]);
  });
}

/** @type {Record<string, (item: Api.PendingPodView) => string>} */
const KEYS = {
  owner: ({ pod }) =>
    pod.owner ? `${pod.namespace}/${pod.owner.kind}/${pod.owner.name}` : `${pod.namespace ?? ""} pods without an owner`,
  reason: reasonOf,
  none: () => "",
};

/**
 * Return groups of pods, the largest first: key, title, items (oldest first), oldest, requests.
 *
 * @param {Api.PendingPodView[]} items
 * @param {string} by owner, reason or none
 */
export function groups(items, by) {
  const keyOf = KEYS[by] ?? KEYS.owner;
  /** @type {Map<string, Api.PendingPodView[]>} */
  const found = new Map();
  for (const item of items) {
    const key = item.pod.hidden && by !== "reason" ? "hidden pods" : keyOf(item);
    const members = found.get(key);
    if (members) members.push(item);
    else found.set(key, [item]);
  }
  return [...found]
    .map(([key, members]) => {
      members.sort((a, b) => (a.since < b.since ? -1 : 1));
      return { key, title: key, items: members, oldest: members[0].since, requests: total(members) };
    })
    .sort((a, b) => b.items.length - a.items.length || byName(a.key, b.key));
}

/** @param {Api.PendingPodView[]} items */
function total(items) {
  /** @type {Record<string, number>} */
  const sum = {};
  for (const { pod } of items) {
    for (const [name, amount] of Object.entries(pod.requests ?? {})) sum[name] = (sum[name] ?? 0) + amount;
  }
  return sum;
}
