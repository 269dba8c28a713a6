/** Candidates and victims of a preemption, decided or possible. */
import { html } from "./html.js";
import { reasonOf } from "./waiting_groups.js";
import { age, serverNow } from "./clock.js";
import { to } from "./route.js";
import { meaningOf } from "./terms.js";
import { count, duration, localTimes, plural, time } from "./format.js";
import { Meter, Node, Owner, Pod, Priority, State } from "./parts.js";

const SUM = "lowest sum of priorities; each victim counts 2³¹ in addition, as in kube-scheduler, so fewer victims are better";

/**
 * Return the value of a criterion.
 *
 * @param {Api.CandidateView} candidate
 * @param {Api.CriterionView} criterion
 */
function shownValue({ values = {} }, { name, measure }) {
  const value = values[name];
  if (value === undefined) return "–";
  if (measure === "time") return `${duration(age(String(value)))} ago`;
  if (measure !== "shiftedSum") return count(Number(value));
  return html`<${Sum} sum=${Number(value)} victims=${Number(values.victims ?? 0)} />`;
}

/**
 * A sum without what it adds for each victim, which no reader can see in it; that is in the title.
 *
 * @param {{sum: number, victims: number}} props
 */
function Sum({ sum, victims }) {
  const rest = count(sum - victims * 2 ** 31);
  if (victims === 0) return rest;
  return html`<span class="term" title=${`${rest} + ${victims} × 2³¹: ${SUM}`}>${rest} in ${plural(victims, "pod")}</span>`;
}

/**
 * The candidates side by side. In the row of each loser the criterion by which it lost is marked;
 * what comes after it was not compared any more and is pale.
 *
 * @param {{of: Api.PreemptionView | Api.PossiblePreemption | Api.SimulatedPod, planned?: boolean}} props
 */
export function Candidates({ of, planned = false }) {
  const { criteria = [], candidates = [], criterion = "" } = of;
  const total = of.candidatesTotal ?? candidates.length;
  if (candidates.length === 0) return html`<p class="muted">No candidates are known.</p>`;
  const verb = planned ? "would be" : "was";
  const shown = criteria.filter((each) => each.title);
  const meanings = new Map(criteria.map((each) => [each.name, each.meaning]));
  const meaning = meanings.get(criterion) ?? criterion;
  return html`<p class="sentence">
      ${candidates.length > 1 && criterion
        ? html`<strong>${candidates[0].node}</strong> ${verb} chosen by: ${meaning}.`
        : html`<strong>${candidates[0].node}</strong> ${planned ? "is" : "was"} the only candidate.`}
    </p>
    <div class="scroll-x"><table class="table compact candidates">
      <thead>
        <tr>
          <th>Node</th>
          ${shown.map(
            (each, index) =>
              html`<th class="number" key=${each.name} title=${`${index + 1}. criterion: ${each.measure === "shiftedSum" ? SUM : each.meaning}`}>
                ${each.title}
              </th>`,
          )}
          <th>Result</th>
        </tr>
      </thead>
      <tbody>
        ${candidates.map((each) => html`<${CandidateRow} key=${each.node} candidate=${each} criteria=${shown} meaning=${meanings.get(each.lostBy ?? "")} />`)}
      </tbody>
    </table></div>
    ${total > candidates.length && html`<p class="muted">${plural(total - candidates.length, "more candidate")} not shown.</p>`}`;
}

/** @param {{candidate: Api.CandidateView, criteria: Api.CriterionView[], meaning?: string}} props */
function CandidateRow({ candidate, criteria, meaning }) {
  const lost = candidate.lostBy ?? "";
  const decided = criteria.findIndex(({ name }) => name === lost);
  const style = (/** @type {number} */ index) => {
    if (!lost || decided < 0) return "number";
    return index === decided ? "number decided" : index > decided ? "number pale" : "number";
  };
  const title = criteria[decided]?.title?.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
  return html`<tr class=${lost ? "" : "chosen"}>
    <td><${Node} name=${candidate.node} /></td>
    ${criteria.map((each, index) => html`<td key=${each.name} class=${style(index)}>${shownValue(candidate, each)}</td>`)}
    <td>${lost ? html`<span class="muted">${title ? `lost by ${title}` : html`equal; <span class="term" title=${meaning}>lost the draw</span>`}</span>` : html`<span class="tag tag-accent">chosen</span>`}</td>
  </tr>`;
}

/**
 * The victims and, of a preemption that was decided, what became of them.
 *
 * @param {{victims?: Api.VictimView[], hidden?: number, when: "planned" | "active" | "past"}} props
 */
export function Victims({ victims = [], hidden = 0, when }) {
  if (victims.length === 0 && !hidden) return html`<p class="muted">No victims.</p>`;
  const planned = when === "planned";
  return html`<div class="scroll-x"><table class="table compact victims">
      <thead>
        <tr><th title=${meaningOf("victim")}>Victim</th><th>Priority</th><th class="number">${when === "past" ? "Had run" : "Runs"}</th>
          ${planned ? html`<th>Disruption budget</th>` : html`<th>State</th><th>What became of it</th>`}</tr>
      </thead>
      <tbody>
        ${victims.map(
          (victim) =>
            html`<tr key=${victim.pod.uid}>
              <td><${Pod} pod=${victim.pod} link="uid" />${victim.pod.owner && html`<div class="below"><${Owner} owner=${victim.pod.owner} /></div>`}</td>
              <td><${Priority} value=${victim.pod.priority} /></td>
              <td class="number">${duration(victim.ranSeconds ?? 0)}</td>
              ${planned ? html`<td><${Budget} victim=${victim} /></td>` : html`<${Outcome} victim=${victim} />`}
            </tr>`,
        )}
      </tbody>
    </table></div>
    ${hidden > 0 && html`<p class="muted">${plural(hidden, "victim")} hidden: you may not get pods in their namespaces.</p>`}`;
}

/**
 * The devices of a preemption with the claims of victims that have or had them, and the claims that
 * are not deallocated yet.
 *
 * @param {{of: Api.PreemptionDevices}} props
 */
export function Devices({ of: { items = [], more = 0, claims = [], moreClaims = 0, victimsGoneAt } }) {
  const waiting = claims.length + moreClaims;
  return html`${waiting > 0 &&
    html`<p class="sentence">${plural(waiting, "claim")} of evicted pods ${waiting === 1 ? "has" : "have"} not been deallocated for ${duration(age(victimsGoneAt))}:
      ${claims.map(
        ({ namespace, name, pod }, index) =>
          html`${index > 0 && ","} <span class="tag tag-bad">${namespace}/${name}</span>${pod && html` <span class="muted">reserved for ${pod}</span>`}`,
      )}${moreClaims > 0 && html`<span class="muted">, and ${plural(moreClaims, "more claim")}</span>`}</p>`}
    ${items.length > 0 &&
    html`<div class="scroll-x"><table class="table compact devices">
      <thead><tr><th>Device</th><th>Pool</th><th>Driver</th><th>Claim that has or had it</th><th>Pod</th></tr></thead>
      <tbody>${items.map(
        ({ driver, pool, device, namespace = "", claim, pod, morePods = 0 }) => html`<tr>
          <td>${device}</td><td>${pool}</td><td class="muted">${driver}</td>
          <td>${claim ? html`<span class="namespace">${namespace}/</span>${claim}` : html`<span class="muted">–</span>`}</td>
          <td>${pod ? html`<${Pod} pod=${{ namespace, name: pod }} link />` : html`<span class="muted">–</span>`}${morePods > 0 && html` <span class="muted">and ${count(morePods)} more</span>`}</td>
        </tr>`,
      )}</tbody>
    </table></div>`}
    ${more > 0 && html`<p class="muted">${plural(more, items.length ? "more device" : "device")} not shown.</p>`}`;
}

/** @param {{victim: Api.VictimView}} props */
function Budget({ victim }) {
  return victim.violatesPdb
    ? html`<span class="tag tag-bad">not respected</span> ${(victim.budgets ?? []).join(", ")}`
    : html`<span class="muted">–</span>`;
}

/** @param {{victim: Api.VictimView}} props */
function Outcome({ victim }) {
  return html`<td>
      <${State} value=${victim.state ?? "planned"} />
      ${victim.violatesPdb && html` <span class="tag tag-bad" title="Its disruption budget does not allow the eviction">PDB</span>`}
      ${victim.wasted && html` <${Wasted} />`}
    </td>
    <td><${Became} replacement=${victim.replacement} /></td>`;
}

/** @param {{replacement?: Api.Replacement | null}} props */
export function Became({ replacement }) {
  if (!replacement) return html`<span class="muted">–</span>`;
  if (replacement.node) return html`<${Pod} pod=${replacement.pod} link /> on <${Node} name=${replacement.node} />`;
  return html`<${Pod} pod=${replacement.pod} link /> waits<div class="below" title=${replacement.message}>${reasonOf(replacement)}</div>`;
}

/**
 * When a pod was evicted, from where, for whom and why, and what replaced it; of a pod that is
 * not that of the page, its name instead, as the pod of the page has replaced it.
 *
 * @param {{eviction: Api.PodEviction, other?: boolean}} props
 */
export function Eviction({ eviction: { victim, preemption }, other = false }) {
  const { criteria = [], criterion = "", candidates = [] } = preemption;
  const at = victim.evictedAt || preemption.decidedAt;
  const meaning = criteria.find((each) => each.name === criterion)?.meaning ?? criterion;
  const others = (preemption.candidatesTotal ?? candidates.length) - 1;
  const going = ["evicting", "terminating"].includes(victim.state ?? "");
  return html`<dl class="facts">
    ${other && html`<div><dt>Pod</dt><dd><${Pod} pod=${victim.pod} link="uid" /></dd></div>`}
    <div><dt>${going ? "Being evicted since" : "Evicted"}</dt><dd>${time(at, serverNow())}, ${duration(age(at))} ago</dd></div>
    <div><dt>From</dt><dd><${Node} name=${preemption.node} /></dd></div>
    <div><dt>For</dt><dd><${Pod} pod=${preemption.preemptor} link="uid" /></dd></div>
    <div><dt>Its priority</dt><dd><${Priority} value=${preemption.preemptor.priority} /></dd></div>
    <div><dt>Had run</dt><dd>${duration(victim.ranSeconds ?? 0)}</dd></div>
    <div><dt>Why this node</dt><dd>${others > 0 ? `chosen of ${count(others + 1)} by: ${meaning}` : "the only candidate"}</dd></div>
    ${!other && html`<div><dt>Replacement</dt><dd><${Became} replacement=${victim.replacement} /></dd></div>`}
    <div><dt>Preemption</dt><dd><a class="node" href=${to("preemptions", [preemption.id])}>${preemption.id}</a></dd></div>
    ${victim.violatesPdb && html`<div><dt>Disruption budget</dt><dd><${Budget} victim=${victim} /></dd></div>`}
    ${victim.wasted && html`<div><dt>Use</dt><dd><${Wasted} /></dd></div>`}
  </dl>`;
}

/** @param {{number?: number}} props how many evictions; one that is not counted by default */
export function Wasted({ number }) {
  return html`<span class="tag tag-bad" title=${meaningOf("wasted")}>${number === undefined ? "" : `${count(number)} `}wasted</span>`;
}

/** @param {{vetoes?: Api.PolicyVeto[]}} props */
export function Vetoes({ vetoes = [] }) {
  const counted = vetoes.some((veto) => veto.count);
  return html`<div class="scroll-x"><table class="table compact">
    <thead><tr><th>Policy</th><th>Rule</th><th>What it says</th>${counted && html`<th class="number">Rules out</th>`}</tr></thead>
    <tbody>
      ${vetoes.map(
        (veto) => html`<tr>
          <td>${veto.policy}</td><td class="muted">${veto.rule}</td><td>${localTimes(veto.message, serverNow())}</td>${counted && html`<td class="number">${count(veto.count)}</td>`}
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/** Nodes that are named for a reason. */
const EXAMPLES = 3;

/**
 * What nodes say, as the number of nodes for each reason.
 *
 * @param {{verdicts?: Api.RejectionGroup[]}} props
 */
export function Verdicts({ verdicts = [] }) {
  if (verdicts.length === 0) return html`<p class="muted">No node rejects it.</p>`;
  const total = verdicts.reduce((sum, verdict) => sum + verdict.nodes, 0);
  return html`<div class="scroll-x"><table class="table compact verdicts">
    <thead>
      <tr><th class="number">Nodes</th><th></th><th>Reason</th><th>Plugin</th><th>Eviction helps</th><th>For example</th></tr>
    </thead>
    <tbody>
      ${verdicts.map((verdict) => {
        const text = verdict.eviction ?? "no";
        const tone = text.startsWith("no") ? "quiet" : "accent";
        return html`<tr>
          <td class="number">${count(verdict.nodes)}</td>
          <td class="share"><${Meter} part=${verdict.nodes / total} tone=${tone} /></td>
          <td>${verdict.reason}</td>
          <td class="muted">${verdict.plugin}</td>
          <td><span class="state tone-${tone}">${text}</span></td>
          <td class="examples" title=${(verdict.examples ?? []).join(", ")}>
            ${(verdict.examples ?? []).slice(0, EXAMPLES).map(
              (name, index) => html`${index > 0 && ", "}<${Node} name=${name} />`,
            )}
          </td>
        </tr>`;
      })}
    </tbody>
  </table></div>`;
}
