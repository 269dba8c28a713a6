/** Preemptions under way and past, over time and as a list; and the page of one. */
import { html, useLayoutEffect, useMemo } from "../html.js";
import { preemptions } from "../documents.js";
import { useLive } from "../live.js";
import { useStore } from "../store.js";
import { go, goToList, refine, route, toList, useFilter } from "../route.js";
import { row, useShortcuts } from "../keyboard.js";
import { see } from "../palette.js";
import { age, serverNow, useTicking } from "../clock.js";
import { cost, count, duration, hasWords, localTimes, plural, podName, time } from "../format.js";
import { Choice, Empty, Filter, Node, Pod, Priority, Section, State, Term, Verdict, focusFilter, useFirst } from "../parts.js";
import { Candidates, Devices, Vetoes, Victims, Wasted } from "../preemption_parts.js";
import { meaningOf } from "../terms.js";
import { TimeLine, buckets } from "../time_line.js";

/** @type {import("../parts.js").Options} */
const SPANS = [["1h", "Hour"], ["6h", "6 hours"], ["24h", "24 hours"]];
/** @type {Record<string, number>} */
const SECONDS = { "1h": 3600, "6h": 6 * 3600, "24h": 24 * 3600 };
/** @type {import("../parts.js").Options} */
const KINDS = [["", "All"], ["active", "Under way"], ["past", "Past"], ["wasted", "Wasted"]];

export function PreemptionsView() {
  const { parts } = useStore(route);
  const live = useLive(preemptions);
  useTicking(5);
  useLayoutEffect(() => {
    if (live.data) see(live.data.items.flatMap(prioritiesOf));
  }, [live.data]);
  if (parts.length === 1) return html`<${Preemption} id=${parts[0]} data=${live.data} />`;
  return html`<${List} live=${live} />`;
}

/** @param {Api.PreemptionView} item */
function prioritiesOf(item) {
  return [item.preemptor.priority ?? 0, ...(item.victims ?? []).map((victim) => victim.pod.priority ?? 0)];
}

const wastedOf = (/** @type {Api.PreemptionView} */ item) => (item.victims ?? []).filter((victim) => victim.wasted).length;
const victimsOf = (/** @type {Api.PreemptionView} */ item) => (item.victims ?? []).length + (item.hiddenVictims ?? 0);

/** @type {Record<string, (item: Api.PreemptionView) => boolean>} */
const CHOSEN = {
  "": () => true,
  active: (item) => !item.endedAt,
  past: (item) => Boolean(item.endedAt),
  wasted: (item) => wastedOf(item) > 0,
};

/** @param {{live: typeof preemptions}} props */
function List({ live }) {
  const { query } = useStore(route);
  const [filter, setFilter] = useFilter();
  const during = spanOf(query.get("during"));
  const setDuring = (/** @type {[number, number] | null} */ span) => refine({ during: span?.map(Math.round).join("-") ?? "" });
  const span = known(SECONDS, query.get("span"), "1h");
  const kind = known(CHOSEN, query.get("state"), "");
  useShortcuts(
    [
      ["/", "Filter preemptions", focusFilter],
      ["Escape", "All preemptions", () => setDuring(null)],
    ],
    [],
  );
  const items = live.data?.items ?? [];
  // Bars move on once a minute, not with each tick.
  const minute = Math.ceil(serverNow() / 60_000) * 60;
  const { step, columns } = useMemo(() => buckets(items, minute, SECONDS[span]), [live.data, minute, span]);
  const found = useMemo(
    () => items.filter((item) => CHOSEN[kind](item) && matches(item, filter) && isDuring(item, during)),
    [live.data, kind, filter, query.get("during")],
  );
  const [shown, more] = useFirst(found);
  if (!live.data) return html`<div class="view muted">${live.error ? "" : "Loading preemptions …"}</div>`;
  return html`<div class="view">
    <div class="toolbar">
      <h2>Victims over time</h2>
      <span class="note">drag to choose a time</span>
      <span class="grow"></span>
      <${Choice} label="Last" options=${SPANS} value=${span} onChange=${(/** @type {string} */ next) => refine({ span: next })} />
    </div>
    <${TimeLine} columns=${columns} step=${step} onSelect=${setDuring} />
    <div class="toolbar">
      <${Filter} value=${filter} onInput=${setFilter} placeholder="Filter preemptions" />
      <${Choice} label="Show" options=${KINDS} value=${kind} onChange=${(/** @type {string} */ state) => refine({ state })} />
      ${during &&
      html`<button type="button" onClick=${() => setDuring(null)}>
        ${time(during[0] * 1000, serverNow())} to ${time(during[1] * 1000, serverNow())} ✕
      </button>`}
      <span class="grow"></span>
      <${Totals} items=${found} hidden=${live.data.hidden} />
    </div>
    ${found.length === 0
      ? html`<${Empty} title="No preemptions">
          ${items.length ? "None matches." : "None in the last 24 hours, as far as they are known."}
        <//>`
      : html`<${Table} items=${shown} />`}
    ${more}
  </div>`;
}

/**
 * Return a value of the address if it is a key, and otherwise the usual one.
 *
 * @param {object} keys
 * @param {string | null} value
 * @param {string} usual
 */
function known(keys, value, usual) {
  return value !== null && Object.hasOwn(keys, value) ? value : usual;
}

/**
 * Return the seconds since 1970 from which and until which the list is limited, if it is.
 *
 * @param {string | null} text
 * @returns {[number, number] | null}
 */
function spanOf(text) {
  const [from, until] = (text ?? "").split("-").map(Number);
  return from > 0 && until > from ? [from, until] : null;
}

/**
 * @param {Api.PreemptionView} item
 * @param {[number, number] | null} during
 */
function isDuring(item, during) {
  const at = Date.parse(item.decidedAt) / 1000;
  return !during || (at >= during[0] && at < during[1]);
}

/**
 * @param {Api.PreemptionView} item
 * @param {string} filter
 */
function matches({ node, phase, outcome, preemptor, victims = [] }, filter) {
  return hasWords(filter, [node, phase, outcome, podName(preemptor), ...victims.map(({ pod }) => podName(pod))]);
}

/**
 * What the preemptions of the list have cost together.
 *
 * @param {{items: Api.PreemptionView[], hidden?: number}} props
 */
function Totals({ items, hidden }) {
  const sum = (/** @type {(item: Api.PreemptionView) => number} */ of) => items.reduce((total, item) => total + of(item), 0);
  const wasted = sum(wastedOf);
  const lost = cost(Object.fromEntries(["cpu", "memory", "pods"].map((name) => [name, sum((item) => item.cost?.[name] ?? 0)])));
  const text = [plural(items.length, "preemption"), plural(sum(victimsOf), "victim")];
  if (wasted) text.push(`${count(wasted)} wasted`);
  if (hidden) text.push(`${count(hidden)} hidden from you`);
  return html`<span class="totals" role="status">${text.join(", ")}, <span class="term" title=${`${lost.join(", ")}. ${meaningOf("cost")}`}>${lost[0]} lost</span></span>`;
}

/** @param {{items: Api.PreemptionView[]}} props */
function Table({ items }) {
  return html`<table class="table rows preemptions">
    <thead>
      <tr>
        <th>Decided</th><th><${Term} word="preemptor">Preemptor<//></th><th>Priority</th><th>Node</th><th>Victims</th>
        <th>State</th><th class="number">Took</th><th class="number">Cost</th>
      </tr>
    </thead>
    <tbody>${items.map((item) => html`<${Row} key=${item.id} item=${item} />`)}</tbody>
  </table>`;
}

/** @param {{item: Api.PreemptionView}} props */
function Row({ item }) {
  const wasted = wastedOf(item);
  return html`<tr ...${row(item.id, () => go("preemptions", [item.id]))}>
    <td class="requests">${time(item.decidedAt, serverNow())} <span class="muted">${duration(age(item.decidedAt))} ago</span></td>
    <td><${Pod} pod=${item.preemptor} /></td>
    <td><${Priority} value=${item.preemptor.priority} /></td>
    <td><${Node} name=${item.node} /></td>
    <td>
      ${victimsOf(item)}${wasted > 0 && html` <${Wasted} number=${wasted} />`}
      ${(item.pdbViolations ?? 0) > 0 && html` <span class="tag tag-bad">PDB</span>`}
    </td>
    <td><${State} value=${item.endedAt ? item.outcome || "done" : item.phase} /></td>
    <td class="number">${took(item)}</td>
    <td class="number muted requests">${cost(item.cost, "cpu")[0] ?? cost(item.cost)[0] ?? ""}</td>
  </tr>`;
}

/** @param {Api.PreemptionView} item */
function took(item) {
  return duration(age(item.decidedAt, item.endedAt ? Date.parse(item.endedAt) : serverNow()));
}

/** @param {{id: string, data: import("../documents.js").Preemptions | null}} props */
function Preemption({ id, data }) {
  useShortcuts([["Escape", "Back to the list", () => goToList("preemptions")]], []);
  const item = data?.items.find((each) => each.id === id);
  return html`<article class="view page">
    <p class="crumbs"><a href=${toList("preemptions")}>Preemptions</a> <span class="muted">/</span> ${id}</p>
    ${item && html`<${Details} item=${item} />`}
    ${data && !item && html`<p class="callout">This preemption is no longer kept: only the last 1,000 of 24 hours are.</p>`}
  </article>`;
}

/** @param {{item: Api.PreemptionView}} props */
function Details({ item }) {
  const active = !item.endedAt;
  const wasted = wastedOf(item);
  const { wouldRefuse = [] } = item;
  return html`<header class="page-head">
      <h1><${Pod} pod=${item.preemptor} link="uid" /> <span class="muted">${active ? "preempts on" : "preempted on"}</span> <${Node} name=${item.node} /></h1>
    </header>
    <${Verdict} of=${item} />
    <dl class="facts">
      <div><dt>${active ? "Phase" : "Outcome"}</dt><dd><${State} value=${active ? item.phase : item.outcome || "done"} /></dd></div>
      <div><dt>Decided</dt><dd>${time(item.decidedAt, serverNow())}, ${duration(age(item.decidedAt))} ago</dd></div>
      <div><dt>${active ? "So far" : "Took"}</dt><dd>${took(item)}</dd></div>
      <div><dt>Priority of the preemptor</dt><dd><${Priority} value=${item.preemptor.priority} /></dd></div>
      <div><dt>Victims</dt><dd>${victimsOf(item)}${wasted > 0 && html` <${Wasted} number=${wasted} />`}</dd></div>
      <div><dt><${Term} word="PDB violations" /></dt><dd>${item.pdbViolations ?? 0}</dd></div>
      <div><dt><${Term} word="cost">Cost: work that was lost<//></dt><dd>${cost(item.cost).join(" · ") || "–"}</dd></div>
    </dl>
    ${item.problem && html`<p class="callout">${localTimes(item.problem, serverNow())}</p>`}
    ${wouldRefuse.length > 0 && html`<${Section} title="Policies in mode Audit that would have refused it"><${Vetoes} vetoes=${wouldRefuse} /><//>`}
    <${Section} title="Victims"><${Victims} victims=${item.victims} hidden=${item.hiddenVictims} when=${active ? "active" : "past"} /><//>
    ${item.devices && html`<${Section} title="Devices for the preemptor"><${Devices} of=${item.devices} /><//>`}
    <${Section} title="Candidates that were compared" note="the criteria from left to right">
      <${Candidates} of=${item} />
    <//>`;
}
