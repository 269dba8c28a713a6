/** What would happen if objects were applied, or nodes drained, now. Nothing is carried out. */
import { html, useRef, useState } from "../html.js";
import { ApiError, LARGEST_PAGE, getAll, post } from "../api.js";
import { Editor } from "../editor.js";
import { useFetched } from "../fetched.js";
import { remember, remembered } from "../storage.js";
import { target } from "../target.js";
import { see } from "../palette.js";
import { serverNow } from "../clock.js";
import { useShortcuts } from "../keyboard.js";
import { byName, count, plural, podName, requests, time } from "../format.js";
import { CopyButton, Empty, Node, Owner, Pod, Priority, Section, State, Verdict, useFirst } from "../parts.js";
import { Became, Candidates, Devices, Verdicts, Vetoes, Victims } from "../preemption_parts.js";
import { MissingRule } from "../head.js";
import { planCommand } from "../commands.js";
import { TextError, lineOf, namesOf, whatIfRequest } from "../what_if_request.js";

const KEPT = "what-if";
/** What was typed stays until the tab is closed. */
let kept = { text: "", drain: "", namespace: "default", settle: true, ...parsed(remembered(KEPT, true)) };
/** @type {Api.WhatIfAnswer | null} */
let lastAnswer = null;
const MOST_SUGGESTIONS = 20;

/** @param {string | null} text */
function parsed(text) {
  try {
    return JSON.parse(text ?? "{}");
  } catch {
    return {};
  }
}

export function WhatIfView() {
  const [form, setForm] = useState(kept);
  const [answer, setAnswer] = useState(lastAnswer);
  const [state, setState] = useState({ busy: false, error: /** @type {Error | null} */ (null) });
  const running = useRef(/** @type {AbortController | null} */ (null));
  const change = (/** @type {Partial<typeof kept>} */ changes) => {
    kept = { ...kept, ...changes };
    remember(KEPT, JSON.stringify(kept), true);
    setForm(kept);
    if (state.error) setState({ ...state, error: null });
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    running.current?.abort();
    running.current = new AbortController();
    const { signal } = running.current;
    setState({ busy: true, error: null });
    try {
      const found = await post("/plan", whatIfRequest(kept), { signal });
      see([...(found.items ?? []), ...(found.others ?? [])].flatMap(prioritiesOf));
      lastAnswer = found;
      setAnswer(found);
      // Below the form on telephones.
      requestAnimationFrame(() => document.querySelector(".answer .verdict")?.scrollIntoView({ block: "nearest" }));
      setState({ busy: false, error: null });
    } catch (error) {
      if (!signal.aborted) setState({ busy: false, error: error instanceof Error ? error : new Error(String(error)) });
    }
  };
  useShortcuts([["/", "Edit the objects", () => document.getElementById("objects")?.focus()]], []);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && submit(event);
  return html`<div class="view what-if">
    <form class="ask" onSubmit=${submit} onKeyDown=${onKeyDown}>
      <div>
        <div class="ask-head">
          <label class="ask-label" for="objects">Objects as they would be applied, in YAML or JSON; or drop files here</label>
          ${!form.text && html`<button type="button" onClick=${() => change({ text: EXAMPLE })}>Load the example</button>`}
        </div>
        <${Editor} id="objects" value=${form.text} placeholder=${EXAMPLE} problem=${problemAt(state.error, form.text)}
          onInput=${(/** @type {string} */ text) => change({ text })} />
      </div>
      <${Drain} value=${form.drain} onInput=${(/** @type {string} */ drain) => change({ drain })} />
      <label class="ask-row"><span class="ask-label">Namespace of objects without one</span>
        <input type="text" value=${form.namespace} spellcheck=${false} autocomplete="off"
          onInput=${(/** @type {Typed} */ event) => change({ namespace: event.currentTarget.value })} /></label>
      <label class="check"><input type="checkbox" checked=${form.settle}
        onChange=${() => change({ settle: !form.settle })} />Simulate controllers that re-create victims, until nothing changes</label>
      <div class="buttons">
        <button type="submit" class="primary" disabled=${state.busy}>${state.busy ? "Planning …" : "What would happen?"}</button>
        <${CopyButton} text=${() => planCommand(kept, target.name)} label="Copy as command" title="kubectl preemptive plan with these objects and nodes" />
        <span class="note"><kbd>Ctrl</kbd> <kbd>Enter</kbd> · nothing is applied</span>
      </div>
      ${state.error && !problemAt(state.error, form.text) && html`<${WhatIfError} error=${state.error} />`}
    </form>
    <div class="answer" aria-live="polite" aria-busy=${state.busy ? "true" : "false"}>
      ${answer
        ? html`<${Answer} answer=${answer} />`
        : html`<${Empty} title="Nothing is planned yet">
            The plan shows where pods would run, which pods would be evicted for them and why, and what
            becomes of these.
          <//>`}
    </div>
  </div>`;
}

const EXAMPLE = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  template:
    spec:
      schedulerName: preemptive-scheduler
      priorityClassName: high
      containers:
        - name: web
          resources:
            requests: {cpu: "2", memory: 4Gi}`;

/**
 * Return what is wrong with a line of the text, if that is what is wrong.
 *
 * @param {Error | null} error
 * @param {string} text
 */
function problemAt(error, text) {
  if (!error) return null;
  const line = error instanceof TextError ? error.line : lineOf(text, error.message);
  return line > 0 ? { line, message: error.message } : null;
}

/**
 * The nodes to drain, with suggestions for the name that is typed.
 *
 * @param {{value: string, onInput: (value: string) => void}} props
 */
function Drain({ value, onInput }) {
  const [asked, setAsked] = useState(false);
  const nodes = useFetched(asked ? "node names" : "", (signal) => getAll("/nodes", { limit: LARGEST_PAGE }, { signal }), null);
  const before = /^(.*[\s,])?/s.exec(value)?.[0] ?? "";
  const taken = new Set(namesOf(before));
  const names = (nodes.data?.items ?? []).map((node) => node.name);
  const found = names.filter((name) => !taken.has(name) && name.includes(value.slice(before.length)));
  return html`<label class="ask-row"><span class="ask-label">Nodes to drain</span>
    <input type="text" id="drain" placeholder="node-1, node-2" spellcheck=${false} autocomplete="off" list="node-names"
      value=${value} onFocus=${() => setAsked(true)} onInput=${(/** @type {Typed} */ event) => onInput(event.currentTarget.value)} />
    <datalist id="node-names">
      ${found.sort(byName).slice(0, MOST_SUGGESTIONS).map((name) => html`<option value=${before + name}></option>`)}
    </datalist></label>`;
}

/** @param {{error: Error}} props */
function WhatIfError({ error }) {
  let hint;
  if (error instanceof ApiError && error.kind === "forbidden") {
    hint = html`<${MissingRule} verb=${error.verb} paths=${[error.path]} />`;
  } else if (error instanceof ApiError && error.kind === "busy") {
    hint = `Other plans are being made. Try again${error.retryAfter ? ` in ${error.retryAfter} s` : " soon"}.`;
  }
  return html`<div class="failure" role="alert"><div><p>${error.message}</p>${hint}</div></div>`;
}

/** @param {Api.SimulatedPod} item */
function prioritiesOf(item) {
  return [item.pod.priority ?? 0, ...(item.victims ?? []).map((victim) => victim.pod.priority ?? 0)];
}

const ORDER = ["NotPlanned", "Preempting", "Error", "Unschedulable", "Gated", "Scheduled"];
/** @type {Record<string, [tone: string, text: string]>} */
const RESULTS = {
  Scheduled: ["good", "fit at once"],
  Preempting: ["warn", "need victims"],
  Unschedulable: ["warn", "would wait"],
  Gated: ["quiet", "gated"],
  Error: ["bad", "failed"],
  NotPlanned: ["warn", "not planned: of another scheduler"],
};

/** @param {{answer: Api.WhatIfAnswer}} props */
function Answer({ answer }) {
  const { items = [], others = [], warnings = [], budgets = [], hiddenBudgets = 0, blockers = [], displaced = [] } = answer;
  const drained = displaced.filter((each) => each.cause === "drain");
  const evicted = displaced.filter((each) => each.cause !== "drain");
  const lost = displaced.filter((each) => each.recreated === false).length;
  return html`<${Verdict} of=${answer} />
    <header class="answer-head">
      <p class="counts">
        ${ORDER.map((decision) => {
          const number = items.filter((item) => item.decision === decision).length;
          const [tone, text] = RESULTS[decision];
          return number > 0 && html`<span class="state tone-${tone}">${count(number)} ${text}</span>`;
        })}
        ${lost > 0 &&
        html`<span class="state tone-bad">
          ${plural(lost, "pod")} would not be re-created: no controller owns ${lost === 1 ? "it" : "them"}
        </span>`}
      </p>
      <span class="note">as of ${time(answer.at, serverNow())}</span>
    </header>
    ${warnings.map((warning) => html`<p class="callout">${warning}</p>`)}
    ${budgets.length + hiddenBudgets + blockers.length > 0 && html`<${Harm} budgets=${budgets} hidden=${hiddenBudgets} blockers=${blockers} />`}
    ${items.length > 0 && html`<${Section} title="Pods" note=${count(items.length)}><${Planned} items=${items} /><//>`}
    ${drained.length > 0 && html`<${Section} title="Drained pods" note=${count(drained.length)}><${Displaced} displaced=${drained} /><//>`}
    ${evicted.length > 0 && html`<${Section} title="Pods evicted for others" note=${count(evicted.length)}><${Displaced} displaced=${evicted} /><//>`}
    ${others.length > 0 && html`<${Section} title="Other pending pods that change" note=${count(others.length)}><${Planned} items=${others} /><//>`}`;
}

/** @param {{budgets: Api.ViolatedBudget[], hidden: number, blockers: Api.DrainBlocker[]}} props */
function Harm({ budgets, hidden, blockers }) {
  return html`<ul class="harm">
    ${budgets.map(
      ({ namespace, name, allowed = 0, victims = 0 }) =>
        html`<li>Disruption budget <strong>${namespace}/${name}</strong> is violated: it allows ${plural(allowed, "disruption")}, and ${plural(victims, "pod")} would be evicted.</li>`,
    )}
    ${hidden > 0 && html`<li>${plural(hidden, "disruption budget is", "disruption budgets are")} violated in namespaces that you may not see.</li>`}
    ${blockers.map(
      ({ node, pod, budgets: named = [] }) =>
        html`<li>The drain of <strong>${node}</strong> stops at <${Pod} pod=${pod} />: disruption budget ${named.join(", ")} does not allow its eviction.</li>`,
    )}
  </ul>`;
}

/** @param {{items: Api.SimulatedPod[]}} props */
function Planned({ items }) {
  const [shown, more] = useFirst([...items].sort((a, b) => ORDER.indexOf(a.decision) - ORDER.indexOf(b.decision)));
  return html`<div class="scroll-x"><table class="table compact">
      <thead><tr><th></th><th>Pod</th><th>Result</th><th>Node</th><th>Priority</th><th class="number">Victims</th><th>Requests</th></tr></thead>
      ${shown.map(
        (item, index) =>
          html`<${SimulatedPod} key=${podName(item.pod)} item=${item} open=${index === 0 && item.decision !== "Scheduled"} />`,
      )}
    </table></div>
    ${more}`;
}

/** @param {{item: Api.SimulatedPod, open: boolean}} props */
function SimulatedPod({ item, open: atFirst }) {
  const [open, setOpen] = useState(atFirst);
  const { pod } = item;
  const victims = (item.victims ?? []).length + (item.hiddenVictims ?? 0);
  const more = item.decision !== "Scheduled";
  const moved = item.finalNode !== undefined && item.finalNode !== (item.node ?? "");
  return html`<tbody>
    <tr>
      <td class="twist-cell">
        ${more &&
        html`<button type="button" class="icon" aria-expanded=${open ? "true" : "false"}
          aria-label=${`Details of ${pod.name}`} onClick=${() => setOpen(!open)}>${open ? "▾" : "▸"}</button>`}
      </td>
      <td><${Pod} pod=${pod} />${item.source && html`<div class="below">${item.source}</div>`}</td>
      <td><${State} value=${item.decision} /></td>
      <td><${Node} name=${item.node} />${moved && item.finalNode && html`<div class="below">in the end <${Node} name=${item.finalNode} /></div>`}</td>
      <td><${Priority} value=${pod.priority} /></td>
      <td class="number">${victims || "–"}</td>
      <td class="muted requests">${pod.hidden ? "" : requests(pod.requests, true)}</td>
    </tr>
    ${more && open && html`<tr class="details"><td></td><td colspan="6"><${Why} item=${item} victims=${victims} /></td></tr>`}
  </tbody>`;
}

/** @param {{item: Api.SimulatedPod, victims: number}} props */
function Why({ item, victims }) {
  return html`${item.message && html`<p class="message">${item.message}</p>`}
    ${(item.verdicts ?? []).length > 0 && html`<${Verdicts} verdicts=${item.verdicts} />`}
    ${victims > 0 && html`<h3 class="gap">Victims</h3><${Victims} victims=${item.victims} hidden=${item.hiddenVictims} when="planned" />`}
    ${item.devices && html`<h3 class="gap">Devices for the pod</h3><${Devices} of=${item.devices} />`}
    ${(item.candidates ?? []).length > 0 &&
    html`<h3 class="gap">Candidates</h3>
      <${Candidates} of=${item} planned />`}
    ${(item.policies ?? []).length > 0 && html`<h3 class="gap">Policies that refuse</h3><${Vetoes} vetoes=${item.policies} />`}`;
}

/** @param {{displaced: Api.DisplacedPod[]}} props */
function Displaced({ displaced }) {
  const [shown, more] = useFirst(displaced);
  return html`<div class="scroll-x"><table class="table compact">
      <thead><tr><th>Pod</th><th>Priority</th><th>From</th><th>What becomes of it</th></tr></thead>
      <tbody>
        ${shown.map(
          (each) => html`<tr>
            <td><${Pod} pod=${each.pod} link />${each.pod.owner && html`<div class="below"><${Owner} owner=${each.pod.owner} /></div>`}</td>
            <td><${Priority} value=${each.pod.priority} /></td>
            <td><${Node} name=${each.fromNode} /></td>
            <td>
              ${each.recreated === false
                ? html`<span class="state tone-bad">not re-created: it has no controller</span>`
                : html`<${Became} replacement=${each.replacement} />`}
            </td>
          </tr>`,
        )}
      </tbody>
    </table></div>
    ${more}`;
}
