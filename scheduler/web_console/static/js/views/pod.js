/** Where one pod is and why: why it waits and what would help, or who evicted it. */
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { summary } from "../documents.js";
import { useFetched } from "../fetched.js";
import { useLive } from "../live.js";
import { goToList, route, to, toList } from "../route.js";
import { useStore } from "../store.js";
import { useShortcuts } from "../keyboard.js";
import { see } from "../palette.js";
import { age, serverNow, useTicking } from "../clock.js";
import { duration, localTimes, plural, requests, time } from "../format.js";
import { Failure, Node, Owner, Priority, Section, State, Verdict, focusFilter } from "../parts.js";
import { PerNode } from "./pod_nodes.js";
import { Candidates, Devices, Eviction, Verdicts, Vetoes, Victims } from "../preemption_parts.js";

/** @param {{namespace: string, name: string}} props */
export function PodPage({ namespace, name }) {
  const [perNode, setPerNode] = useState(false);
  const uid = useStore(route).query.get("uid") ?? "";
  useTicking(5);
  const { data: figures } = useLive(summary);
  const found = useFetched(
    `${namespace}/${name} ${uid} ${perNode}`,
    async (signal) => {
      const document = await get("/pods/{namespace}/{name}", { nodes: perNode ? 1 : "", uid }, { signal, names: [namespace, name] });
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
      ? html`<p class="callout">${localTimes(found.error.message, serverNow())}</p>`
      : found.error && !document && html`<${Failure} error=${found.error} reload=${found.reload} />`}
    ${document
      ? html`<${Explanation} document=${document} perNode=${perNode} onPerNode=${() => setPerNode(true)} />`
      : found.loading && html`<p class="muted wait">Evaluating the pod on all nodes …</p>`}
  </article>`;
}

/** @param {{document: Api.PodExplanation, perNode: boolean, onPerNode: () => void}} props */
function Explanation({ document, perNode, onPerNode }) {
  const { pending, history = [], evictions = [], replaces, state = "waiting" } = document;
  const own = evictions.filter(({ victim }) => victim.pod.uid === pending.pod.uid);
  const earlier = evictions.filter((each) => !own.includes(each));
  return html`<${Verdict} of=${document} />
    <${Facts} document=${document} />
    ${own.map((each) => html`<${Section} title="Its eviction"><${Eviction} eviction=${each} /><//>`)}
    ${state === "waiting" && !document.leftAt && html`<${Waiting} document=${document} perNode=${perNode} onPerNode=${onPerNode} />`}
    ${replaces && html`<${Section} title="The pod that it replaces was evicted"><${Eviction} eviction=${replaces} other /><//>`}
    ${earlier.map((each) => html`<${Section} title="An earlier pod of this name was evicted"><${Eviction} eviction=${each} other /><//>`)}
    ${(state === "waiting" || history.length > 0) &&
    html`<${Section} title="Attempts" note=${plural(pending.attempts ?? 0, "attempt")}>
      <${History} attempts=${history} message=${document.message} />
    <//>`}`;
}

/** @param {{document: Api.PodExplanation, perNode: boolean, onPerNode: () => void}} props */
function Waiting({ document, perNode, onPerNode }) {
  const { suggestions = [], policies = [], verdicts = [], preemption, preemptionMessage = "", message = "" } = document;
  return html`${document.node && html`<p class="message">It fits now on <${Node} name=${document.node} />.</p>`}
    ${suggestions.length > 0 &&
    html`<${Section} title="What would help"><ul class="suggestions">${suggestions.map((text) => html`<li>${text}</li>`)}</ul><//>`}
    ${document.devices && html`<${Section} title="Devices that it waits for"><${Devices} of=${document.devices} /><//>`}
    <${Section} title="Node results" note=${`evaluated at ${time(document.now, serverNow())}`}
      actions=${!perNode && html`<button type="button" onClick=${onPerNode}>Each node</button>`}>
      <${Verdicts} verdicts=${verdicts} />
      ${perNode && html`<${PerNode} nodes=${document.nodes ?? []} />`}
    <//>
    <${Section} title="Possible preemption">
      ${preemption
        ? html`<${Possible} preemption=${preemption} />`
        : html`<p class="muted">${preemptionMessage && !message.includes(preemptionMessage) ? preemptionMessage : preemptionMessage ? "No preemption would make space." : "None is needed."}</p>`}
    <//>
    ${policies.length > 0 && html`<${Section} title="Policies that refuse"><${Vetoes} vetoes=${policies} /><//>`}
    ${message && html`<${Section} title="Message" note="in the words of kube-scheduler"><p class="message">${message}</p><//>`}`;
}

/** @param {{document: Api.PodExplanation}} props */
function Facts({ document: { pending, placement, leftAt, preempted, state } }) {
  const { pod } = pending;
  return html`<dl class="facts">
    <div><dt>State</dt><dd><${State} value=${state && state !== "waiting" ? state : pending.phase} /></dd></div>
    ${placement
      ? html`<div><dt>On</dt><dd><${Node} name=${placement.node} /></dd></div>
          <div><dt>Runs</dt><dd>${duration(age(placement.since))}</dd></div>
          <div><dt>Disruption budget</dt><dd>${(placement.budgets ?? []).join(", ") || "none"}</dd></div>`
      : leftAt
        ? html`<div><dt>Left the queue</dt><dd>${duration(age(leftAt))} ago</dd></div>`
        : state !== "evicted" && html`<div><dt>Waits</dt><dd>${duration(age(pending.since))}</dd></div>`}
    <div><dt>Priority</dt><dd><${Priority} value=${pod.priority} /></dd></div>
    <div><dt>Requests</dt><dd>${requests(pod.requests)}</dd></div>
    <div><dt>Owner</dt><dd><${Owner} owner=${pod.owner} /></dd></div>
    ${pending.schedulerName && html`<div><dt>Scheduler</dt><dd>${pending.schedulerName}</dd></div>`}
    ${pending.nominatedNode && html`<div><dt>Nominated to</dt><dd><${Node} name=${pending.nominatedNode} /></dd></div>`}
    ${preempted && html`<div><dt>Preemption for it</dt><dd><a class="node" href=${to("preemptions", [preempted])}>${preempted}</a></dd></div>`}
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
    ${preemption.devices && html`<h3 class="gap">Devices for the pod</h3><${Devices} of=${preemption.devices} />`}
    <h3 class="gap">Candidates</h3>
    <${Candidates} of=${preemption} planned />`;
}

/**
 * The last attempts; a message that the page shows already is not repeated.
 *
 * @param {{attempts: Api.AttemptView[], message?: string}} props
 */
function History({ attempts, message }) {
  if (attempts.length === 0) return html`<p class="muted">It was not tried yet.</p>`;
  return html`<ol class="history">
    ${[...attempts].reverse().map(
      (attempt) => html`<li>
        <time>${time(attempt.at, serverNow())}</time>
        <${State} value=${attempt.decision} />
        <span class="history-text">
          ${attempt.node && html`<${Node} name=${attempt.node} /> `}${attempt.message && message?.startsWith(attempt.message) ? html`<span class="muted">the message above</span>` : attempt.message}
          ${(attempt.repeated ?? 0) > 0 && html` <span class="tag">${plural(attempt.repeated ?? 0, "time", "times")} more</span>`}
        </span>
      </li>`,
    )}
  </ol>`;
}
