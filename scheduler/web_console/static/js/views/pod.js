/** Why one pod waits, and what would help. */
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { summary } from "../documents.js";
import { useFetched } from "../fetched.js";
import { useLive } from "../live.js";
import { goToList, toList } from "../route.js";
import { useShortcuts } from "../keyboard.js";
import { see } from "../palette.js";
import { age, serverNow, useTicking } from "../clock.js";
import { duration, plural, requests, time } from "../format.js";
import { Failure, Node, Owner, Priority, Section, State, focusFilter } from "../parts.js";
import { PerNode } from "./pod_nodes.js";
import { Candidates, Verdicts, Vetoes, Victims } from "../preemption_parts.js";

/** @param {{namespace: string, name: string}} props */
export function PodPage({ namespace, name }) {
  const [perNode, setPerNode] = useState(false);
  useTicking(5);
  const { data: figures } = useLive(summary);
  const found = useFetched(
    `${namespace}/${name} ${perNode}`,
    async (signal) => {
      const document = await get("/pods/{namespace}/{name}", { nodes: perNode ? 1 : "" }, { signal, names: [namespace, name] });
      see([document.pending.pod.priority ?? 0]);
      return document;
    },
    // Evaluating a pod costs the scheduler time, so the answer for each node is not asked for again.
    perNode ? null : figures?.revision,
  );
  useShortcuts(
    [
      ["Escape", "Back to the queue", () => goToList("waiting")],
      ["r", "Evaluate the pod again", () => found.reload()],
      ["/", "Filter nodes", focusFilter],
    ],
    [found.reload],
  );
  const document = found.data;
  return html`<article class="view page">
    <p class="crumbs"><a href=${toList("waiting")}>Waiting</a> <span class="muted">/</span> ${namespace}</p>
    <header class="page-head">
      <h1>${name}</h1>
      <button type="button" onClick=${found.reload}>Evaluate again</button>
    </header>
    ${found.error?.kind === "missing"
      ? html`<p class="callout">It is no longer pending: it is bound or deleted. <span class="muted">${found.error.message}</span></p>`
      : found.error && !document && html`<${Failure} error=${found.error} reload=${found.reload} />`}
    ${document
      ? html`<${Explanation} document=${document} perNode=${perNode} onPerNode=${() => setPerNode(true)} />`
      : found.loading && html`<p class="muted wait">Evaluating the pod on all nodes …</p>`}
  </article>`;
}

/** @param {{document: Api.PodExplanation, perNode: boolean, onPerNode: () => void}} props */
function Explanation({ document, perNode, onPerNode }) {
  const { pending, suggestions = [], history = [], policies = [], verdicts = [] } = document;
  return html`<${Facts} pending=${pending} />
    <p class="message">${document.node ? html`It fits now on <${Node} name=${document.node} />.` : document.message}</p>
    ${suggestions.length > 0 &&
    html`<${Section} title="What would help"><ul class="suggestions">${suggestions.map((text) => html`<li>${text}</li>`)}</ul><//>`}
    <${Section} title="Node results" note=${`evaluated at ${time(document.now, serverNow())}`}
      actions=${!perNode && html`<button type="button" onClick=${onPerNode}>Each node</button>`}>
      <${Verdicts} verdicts=${verdicts} />
      ${perNode && html`<${PerNode} nodes=${document.nodes ?? []} />`}
    <//>
    <${Section} title="Possible preemption">
      ${document.preemption
        ? html`<${Possible} preemption=${document.preemption} />`
        : html`<p class="muted">${document.preemptionMessage || "None is needed."}</p>`}
    <//>
    ${policies.length > 0 && html`<${Section} title="Policies that refuse"><${Vetoes} vetoes=${policies} /><//>`}
    <${Section} title="Attempts" note=${plural(pending.attempts ?? 0, "attempt")}><${History} attempts=${history} /><//>`;
}

/** @param {{pending: Api.PendingPodView}} props */
function Facts({ pending }) {
  const { pod } = pending;
  return html`<dl class="facts">
    <div><dt>Phase</dt><dd><${State} value=${pending.phase} /></dd></div>
    <div><dt>Waits</dt><dd>${duration(age(pending.since))}</dd></div>
    <div><dt>Priority</dt><dd><${Priority} value=${pod.priority} /></dd></div>
    <div><dt>Requests</dt><dd>${requests(pod.requests)}</dd></div>
    <div><dt>Owner</dt><dd><${Owner} owner=${pod.owner} /></dd></div>
    <div><dt>Scheduler</dt><dd>${pending.schedulerName}</dd></div>
    ${pending.nominatedNode && html`<div><dt>Nominated to</dt><dd><${Node} name=${pending.nominatedNode} /></dd></div>`}
    ${pending.backoffUntil && html`<div><dt>Next attempt</dt><dd>in ${duration((Date.parse(pending.backoffUntil) - serverNow()) / 1000)}</dd></div>`}
  </dl>`;
}

/** @param {{preemption: Api.PossiblePreemption}} props */
function Possible({ preemption }) {
  const victims = preemption.victims ?? [];
  const all = victims.length + (preemption.hiddenVictims ?? 0);
  const violations = preemption.pdbViolations ?? 0;
  return html`<p class="sentence">
      Evicting ${plural(all, "pod")} on <${Node} name=${preemption.node} /> would make space.
      ${violations > 0 && html` <span class="tag tag-bad">${plural(violations, "PDB violation")}</span>`}
    </p>
    <${Victims} victims=${victims} hidden=${preemption.hiddenVictims} when="planned" />
    <h3 class="gap">Candidates</h3>
    <${Candidates} of=${preemption} planned />`;
}

/** @param {{attempts: Api.AttemptView[]}} props */
function History({ attempts }) {
  if (attempts.length === 0) return html`<p class="muted">It was not tried yet.</p>`;
  return html`<ol class="history">
    ${[...attempts].reverse().map(
      (attempt) => html`<li>
        <time>${time(attempt.at, serverNow())}</time>
        <${State} value=${attempt.decision} />
        <span class="history-text">
          ${attempt.node && html`<${Node} name=${attempt.node} /> `}${attempt.message}
          ${(attempt.repeated ?? 0) > 0 && html` <span class="tag">${plural(attempt.repeated ?? 0, "time", "times")} more</span>`}
        </span>
      </li>`,
    )}
  </ol>`;
}
