/** Shadow mode: what another scheduler did, and what this one would have done. */
import { html, useMemo } from "../html.js";
import { get } from "../api.js";
import { summary } from "../documents.js";
import { useFetched } from "../fetched.js";
import { useLive } from "../live.js";
import { useStore } from "../store.js";
import { go, refine, route, useFilter } from "../route.js";
import { row, useShortcuts } from "../keyboard.js";
import { age, serverNow, useTicking } from "../clock.js";
import { cost, count, duration, hasWords, localTimes, plural, podName, time } from "../format.js";
import { Empty, Filter, Node, Pod, Select, State, Term, Verdict, focusFilter, useFirst } from "../parts.js";

/** All that the scheduler keeps. */
const MOST = 1000;
/** Victims that are named of one side. */
const NAMED = 3;

export function ShadowView() {
  useTicking(5);
  const { data: figures } = useLive(summary);
  const { data, error } = useFetched("shadow", (signal) => get("/shadow", { limit: MOST }, { signal }), figures?.revision);
  useShortcuts(
    [
      ["/", "Filter pods", focusFilter],
      ["Escape", "All outcomes", () => refine({ outcome: "" })],
    ],
    [],
  );
  if (error?.kind === "missing") return html`<${Empty} title="Not in shadow mode">${error.message}.<//>`;
  if (!data) return html`<div class="view muted">${error ? "" : "Loading the comparison …"}</div>`;
  return html`<div class="view">
    <${Verdict} of=${data} />
    <${Numbers} of=${data} />
    <${Differences} of=${data} />
  </div>`;
}

/** @param {Api.ShadowDocument} document */
const theirNames = ({ schedulers }) => schedulers.join(", ");
/** @param {string} outcome */
const inWords = (outcome) => outcome.replaceAll("_", " ");

/** @param {{of: Api.ShadowDocument}} props */
function Numbers({ of }) {
  const counted = (of.outcomes ?? []).filter((each) => each.count);
  if (counted.length === 0) {
    return html`<${Empty} title="Nothing is compared yet">
      A pod is compared when ${theirNames(of)} binds it, says that it fits nowhere, or evicts pods for it.
    <//>`;
  }
  return html`<div class="cards">
    <section class="card">
      <header class="card-head"><h3>Compared with ${theirNames(of)}</h3><span class="note">for ${duration(age(of.since))}</span></header>
      <table class="table compact outcomes">
        <tbody>${counted.map((each) => html`<tr key=${each.name}><td class="number">${count(each.count)}</td><td>${each.meaning}</td></tr>`)}</tbody>
      </table>
    </section>
    <section class="card">
      <header class="card-head"><h3>Preemptions</h3></header>
      <table class="table compact sides">
        <thead><tr><th>By</th><th class="number">Evicted pods</th><th><${Term} word="cost">Work that was lost<//></th></tr></thead>
        <tbody>
          <tr><td>${theirNames(of)}</td><td class="number">${count(of.theirVictims)}</td><td>${lost(of.theirCost)}</td></tr>
          <tr><td>this scheduler</td><td class="number">${count(of.ourVictims)}</td><td>${lost(of.ourCost)}</td></tr>
        </tbody>
      </table>
    </section>
  </div>`;
}

/** @param {Record<string, number> | undefined} amounts */
function lost(amounts) {
  const parts = cost(amounts).map((part, index) => html`${index > 0 && " · "}<span class="number">${part}</span>`);
  return parts.length > 0 ? parts : "–";
}

/** @param {{of: Api.ShadowDocument}} props */
function Differences({ of: { items = [], hidden = 0, outcomes = [] } }) {
  const asked = useStore(route).query.get("outcome") ?? "";
  const [filter, setFilter] = useFilter();
  const found = useMemo(
    () => items.filter((item) => (!asked || item.outcome === asked) && matches(item, filter)),
    [items, asked, filter],
  );
  const [shown, more] = useFirst(found);
  if (items.length === 0) {
    return hidden
      ? html`<${Empty} title=${`${plural(hidden, "pod was", "pods were")} treated differently`}>
          You may not get pods in their namespaces, so they are counted and not named.
        <//>`
      : outcomes.some((each) => each.count) && html`<${Empty} title="No pod was treated differently" />`;
  }
  const kinds = [...new Set([...items.map((item) => item.outcome), ...(asked ? [asked] : [])])].sort();
  const meanings = new Map(outcomes.map((each) => [each.name, each.meaning]));
  const text = [plural(found.length, "pod")];
  if (hidden) text.push(`${count(hidden)} hidden from you`);
  return html`<div class="toolbar gap"><h2>Pods that were treated differently</h2><span class="note">the last ${count(MOST)} are kept</span></div>
    <div class="toolbar">
      <${Filter} value=${filter} onInput=${setFilter} placeholder="Filter pods" />
      <${Select} label="Outcome" id="outcome" value=${asked} options=${[["", "all"], ...kinds.map((kind) => [kind, inWords(kind)])]}
        onChange=${(/** @type {string} */ outcome) => refine({ outcome })} />
      <span class="grow"></span>
      <span class="totals" role="status">${text.join(", ")}</span>
    </div>
    ${found.length === 0
      ? html`<${Empty} title="No pods">None matches.<//>`
      : html`<table class="table rows differences">
          <thead><tr><th>When</th><th>Pod</th><th>Outcome</th><th>Theirs</th><th>Ours</th><th>Why</th></tr></thead>
          <tbody>${shown.map((item) => html`<${Row} key=${keyOf(item)} item=${item} meaning=${meanings.get(item.outcome)} />`)}</tbody>
        </table>`}
    ${more}`;
}

/** @param {Api.ShadowPod} item */
function matches({ pod, outcome, theirNode, ourNode, why, theirVictims = [], ourVictims = [] }, /** @type {string} */ filter) {
  return hasWords(filter, [podName(pod), inWords(outcome), theirNode, ourNode, why, ...[...theirVictims, ...ourVictims].map(podName)]);
}

/** @param {Api.ShadowPod} item */
const keyOf = ({ pod, at, outcome }) => `${pod.uid} ${at} ${outcome}`;

/** @param {{item: Api.ShadowPod, meaning?: string}} props */
function Row({ item, meaning }) {
  const { pod, at, outcome, why = "" } = item;
  const open = () => go("waiting", [pod.namespace, pod.name], { uid: pod.uid ?? "" });
  return html`<tr ...${row(keyOf(item), open)}>
    <td class="requests">${time(at, serverNow())} <span class="muted">${duration(age(at))} ago</span></td>
    <td><${Pod} pod=${pod} link="uid" /></td>
    <td><${State} value=${inWords(outcome)} meaning=${meaning} /></td>
    <td><${Side} node=${item.theirNode} victims=${item.theirVictims} total=${item.theirVictimsTotal} /></td>
    <td><${Side} node=${item.ourNode} victims=${item.ourVictims} total=${item.ourVictimsTotal} /></td>
    <td class="reason">${localTimes(why, serverNow())}</td>
  </tr>`;
}

/**
 * What one side does with a pod: its node, and the pods that it evicts there.
 *
 * @param {{node?: string, victims?: Api.PodView[], total?: number}} props
 */
function Side({ node, victims = [], total = 0 }) {
  if (!node) return html`<span class="muted">pending</span>`;
  const names = victims.slice(0, NAMED).map(podName);
  if (total > names.length) names.push(`${count(total - names.length)} more`);
  return html`<${Node} name=${node} />${total > 0 && html`, evicts ${count(total)}<div class="below">${names.join(", ")}</div>`}`;
}
