/** What preemption policies allow and have spent, and the built-in bounds. */
import { html } from "../html.js";
import { policies } from "../documents.js";
import { useLive } from "../live.js";
import { age, useTicking } from "../clock.js";
import { count, duration, plural, podName } from "../format.js";
import { undoCommand } from "../commands.js";
import { CopyButton, Empty, Meter, State } from "../parts.js";
import { target } from "../target.js";

export function PoliciesView() {
  const live = useLive(policies);
  useTicking(5);
  if (!live.data) return html`<div class="view muted">${live.error ? "" : "Loading policies …"}</div>`;
  const { items = [], bounds = [] } = live.data;
  const note = items.length > 0 ? plural(items.length, "PreemptionPolicy", "PreemptionPolicies") : "";
  return html`<div class="view">
    <div class="toolbar"><h2>Policies</h2><span class="note">${note}</span></div>
    ${items.length === 0
      ? html`<${Empty} title="No policies">Only the built-in limits apply to preemption. PreemptionPolicy objects add rules.<//>`
      : html`<div class="cards">${items.map((policy) => html`<${Policy} key=${policy.name} policy=${policy} />`)}</div>`}
    <div class="toolbar gap"><h2>Built-in limits on wasted evictions</h2><span class="note">no policy can lift them</span></div>
    <div class="bounds">${bounds.map((bound) => html`<${Bound} key=${bound.scope} bound=${bound} />`)}</div>
  </div>`;
}

/** @param {{policy: Api.PolicyView}} props */
function Policy({ policy }) {
  const { name, accepted = true, mode = "Enforce", wouldRefuse = {}, lastRefused, stops = false, stopReason = "", budgets = [], refusals = {}, rules = [], generationInForce = 0 } = policy;
  const behind = generationInForce > 0 && generationInForce !== policy.generation;
  return html`<section class="card" aria-label=${`Policy ${name}`}>
    <header class="card-head">
      <h3>${name}</h3>
      <span class="note">${mode === "Audit" ? "Audit: it refuses nothing" : mode}</span>
      <${State} value=${accepted ? "in force" : "refused"} />
    </header>
    ${stops && html`<p class="callout">All preemption is stopped${stopReason && `: ${stopReason}`}.</p>`}
    ${!accepted && html`<p class="callout">${policy.message}${behind && html`<br />Generation ${generationInForce} stays in force.`}</p>`}
    ${rules.length > 0 && html`<ul class="rules">${rules.map((rule) => html`<li>${rule}</li>`)}</ul>`}
    ${budgets.map((budget) => html`<${Gauge} key=${budget.text} title=${budget.text} budget=${budget} />`)}
    <${Change} policy=${policy} />
    <div class="refusals">
      <${Refusals} refusals=${refusals} verb="refused" />
      <${Refusals} refusals=${wouldRefuse} verb="would have refused" />
      ${lastRefused
        ? html`<p class="muted">The last one: ${podName(lastRefused)}, ${duration(age(policy.lastRefusal))} ago${policy.lastRefusalMode === "Audit" && ", in mode Audit"}.</p>`
        : html`<p class="muted">It has refused nothing.</p>`}
    </div>
  </section>`;
}

/**
 * What the newest generation has changed, and the command that undoes it.
 *
 * @param {{policy: Api.PolicyView}} props
 */
function Change({ policy: { name, changes = [], changedAt, previousGeneration = 0 } }) {
  if (!previousGeneration) return null;
  const command = undoCommand(name, target.name);
  return html`<div class="change">
    ${changes.length > 0 &&
    html`<p>Last change${changedAt && `, ${duration(age(changedAt))} ago`}</p>
      <ul class="rules">${changes.map((change) => html`<li>${change}</li>`)}</ul>`}
    <div class="ask-head">
      <span class="muted">To return to generation ${previousGeneration}</span>
      <${CopyButton} text=${() => command} label="Copy" title="Copy the command" />
    </div>
    <pre class="rule">${command}</pre>
  </div>`;
}

/** @param {number} part */
function tone(part) {
  return part >= 1 ? "bad" : part >= 0.75 ? "warn" : "accent";
}

/**
 * What is spent of a limit within a sliding window; the keys with the most are below.
 *
 * @param {{title: string, budget: Api.BudgetView}} props
 */
function Gauge({ title, budget }) {
  const { limit, spent = 0, windowSeconds, top = [] } = budget;
  const part = limit > 0 ? spent / limit : spent > 0 ? 1 : 0;
  const text = `${count(spent)} of ${count(limit)} in ${duration(windowSeconds)}`;
  return html`<div class="gauge">
    <div class="gauge-head"><span>${title}</span><span class="number">${text}</span></div>
    <${Meter} part=${part} tone=${tone(part)} label=${`${title}: ${text}`} />
    ${top.length > 0 &&
    html`<ul class="tops">
      ${top.slice(0, 5).map(
        (use) => html`<li>
          <span class="top-key" title=${use.key}>${use.key}</span>
          <${Meter} part=${limit > 0 ? use.spent / limit : 1} tone=${tone(limit > 0 ? use.spent / limit : 1)} label=${`${use.key}: ${use.spent}`} />
          <span class="number">${count(use.spent)}</span>
        </li>`,
      )}
    </ul>`}
  </div>`;
}

/** @param {{refusals: Record<string, number>, verb: string}} props */
function Refusals({ refusals, verb }) {
  const entries = Object.entries(refusals).filter(([, times]) => times > 0).sort((a, b) => b[1] - a[1]);
  if (entries.length === 0) return null;
  return html`<p class="muted">Preemptions that it ${verb}</p>
    <ul class="chips">${entries.map(([rule, times]) => html`<li class="chip">${rule} <strong>${count(times)}</strong></li>`)}</ul>`;
}

/** @param {{bound: Api.BoundView}} props */
function Bound({ bound }) {
  const { stopped = 0 } = bound;
  return html`<section class="card" aria-label=${`Limit per ${bound.scope}`}>
    <${Gauge} title=${`Per ${bound.scope}`} budget=${bound} />
    ${stopped > 0 &&
    html`<p class="callout">Preemption is stopped for ${plural(stopped, bound.scope)}.</p>`}
  </section>`;
}
