/** Small parts that several views have. */
import { html, useState } from "./html.js";
import { to } from "./route.js";
import { count, localTimes, podName, priority as shownPriority } from "./format.js";
import { serverNow } from "./clock.js";
import { asked, colour, patterned, scale } from "./palette.js";
import { meaningOf } from "./terms.js";
import { useStore } from "./store.js";

/**
 * A square in the colour of a priority.
 *
 * @param {{level: import("./palette.js").Level}} props
 */
export function Swatch({ level }) {
  const on = patterned(useStore(scale), useStore(asked));
  return html`<span
    class="swatch ${on ? `swatch-${level.pattern}` : ""}"
    style=${{ backgroundColor: colour(level) }}
    aria-hidden="true"
  ></span>`;
}

/**
 * A priority with its colour.
 *
 * @param {{value?: number}} props
 */
export function Priority({ value = 0 }) {
  const levels = useStore(scale);
  return html`<span class="priority" title="priority ${count(value)}"
    ><${Swatch} level=${levels.of(value)} />${shownPriority(value)}</span
  >`;
}

/**
 * The answer in one sentence, which the scheduler makes.
 *
 * @param {{of: {verdict?: string, impact?: string}}} props
 */
export function Verdict({ of: { verdict, impact = "none" } }) {
  return verdict && html`<p class="verdict impact-${impact}">${localTimes(verdict, serverNow())}</p>`;
}

/**
 * The name of a pod; hidden names are said to be hidden. A link leads to its page, with its uid
 * where another pod may have the name by now.
 *
 * @param {{pod: Api.PodView, link?: boolean | "uid"}} props
 */
export function Pod({ pod, link = false }) {
  if (pod.hidden) {
    return html`<span class="hidden-name" title="You may not get pods in its namespace">hidden pod</span>`;
  }
  const name = html`<span class="namespace">${pod.namespace}/</span><span class="name">${pod.name}</span>`;
  return link
    ? html`<a class="pod" href=${to("waiting", [pod.namespace, pod.name], { uid: link === "uid" ? (pod.uid ?? "") : "" })}>${name}</a>`
    : html`<span class="pod" title=${podName(pod)}>${name}</span>`;
}

/** @param {{owner?: Api.OwnerView | null}} props */
export function Owner({ owner }) {
  return owner ? html`<span class="owner">${owner.kind}/${owner.name}</span>` : html`<span class="muted">–</span>`;
}

/**
 * The name of a node that leads to it in the cluster view.
 *
 * @param {{name?: string}} props
 */
export function Node({ name }) {
  return name
    ? html`<a class="node" href=${to("cluster", [], { node: name })}>${name}</a>`
    : html`<span class="muted">–</span>`;
}

/** @type {Record<string, string>} */
const TONES = {
  active: "info",
  backoff: "warn",
  unschedulable: "warn",
  gated: "quiet",
  preempting: "accent",
  binding: "good",
  bound: "good",
  elsewhere: "warn",
  failed: "bad",
  "given up": "bad",
  gone: "quiet",
  Scheduled: "good",
  Preempting: "accent",
  Unschedulable: "warn",
  Gated: "quiet",
  Error: "bad",
  evicting: "accent",
  terminating: "accent",
  deallocating: "warn",
  spared: "good",
  "in force": "good",
  refused: "bad",
  planned: "quiet",
  running: "good",
  evicted: "warn",
  foreign: "quiet",
  left: "quiet",
  waiting: "info",
  NotPlanned: "warn",
  "node infeasible": "warn",
  "no room": "warn",
  "would place": "good",
  "preemption avoided": "good",
  "preemption added": "warn",
  "not compared": "quiet",
};

/**
 * A word with a mark whose colour says how good it is; the word says it as well.
 *
 * @param {{value: string, meaning?: string}} props
 */
export function State({ value, meaning = meaningOf(value) }) {
  return html`<span class="state tone-${TONES[value] ?? "info"}" title=${meaning}>${value}</span>`;
}

/**
 * A word of ours, with its meaning where the pointer is.
 *
 * @param {{word: string, children?: Content}} props the word itself is shown by default
 */
export function Term({ word, children }) {
  return html`<span class="term" title=${meaningOf(word)}>${children ?? word}</span>`;
}

/**
 * A button that copies a text.
 *
 * @param {{text: () => string, label: string, title: string}} props
 */
export function CopyButton({ text, label, title }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      setSaid("The browser does not allow it");
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return html`<button type="button" onClick=${copy} title=${title}>${said || label}</button>`;
}

/** @param {{title: string, children?: Content}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><p>${children}</p></div>`;
}

/** @param {{title: string, note?: string, actions?: Content, children?: Content, id?: string}} props */
export function Section({ title, note, actions, children, id }) {
  return html`<section class="section" id=${id}>
    <header class="section-head">
      <h2>${title}</h2>
      ${note && html`<span class="note">${note}</span>`}
      ${actions && html`<div class="section-actions">${actions}</div>`}
    </header>
    ${children}
  </section>`;
}

/** @typedef {[key: string, text: string][]} Options */

/**
 * Buttons of which one is chosen.
 *
 * @param {{label: string, options: Options, value: string, onChange: (key: string) => void}} props
 */
export function Choice({ label, options, value, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    <span class="choice-label" aria-hidden="true">${label}</span>
    ${options.map(
      ([key, text]) =>
        html`<button type="button" aria-pressed=${key === value ? "true" : "false"} onClick=${() => onChange(key)}>
          ${text}
        </button>`,
    )}
  </div>`;
}

/** @param {{label: string, options: Options, value: string, onChange: (key: string) => void, id?: string}} props */
export function Select({ label, options, value, onChange, id }) {
  return html`<label class="field"
    ><span>${label}</span
    ><select id=${id} value=${value} onChange=${(/** @type {Typed} */ event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
    </select></label
  >`;
}

/**
 * A field that filters; `/` leads to it.
 *
 * @param {{value: string, onInput: (value: string) => void, placeholder: string}} props
 */
export function Filter({ value, onInput, placeholder }) {
  return html`<input
    class="filter"
    type="search"
    id="filter"
    aria-label=${placeholder}
    placeholder=${`${placeholder}  ( / )`}
    value=${value}
    spellcheck=${false}
    autocomplete="off"
    onInput=${(/** @type {Typed} */ event) => onInput(event.currentTarget.value)}
  />`;
}

export function focusFilter() {
  document.getElementById("filter")?.focus();
}

/**
 * A bar that shows a part of a whole.
 *
 * @param {{part: number, label?: string, tone?: string}} props
 */
export function Meter({ part, label, tone = "accent" }) {
  const width = `${Math.round(1000 * Math.min(1, Math.max(0, part))) / 10}%`;
  const named = label ? { role: "img", "aria-label": label, title: label } : { "aria-hidden": "true" };
  return html`<span class="meter" ...${named}
    ><span class="meter-fill fill-${tone}" style=${{ width }}></span
  ></span>`;
}

/**
 * Return the first items, and a button that shows more of them if there are more.
 *
 * @template T
 * @param {T[]} items
 * @param {number} [first]
 * @returns {[shown: T[], more: Content]}
 */
export function useFirst(items, first = 100) {
  const [most, setMost] = useState(first);
  const rest = items.length - most;
  const more = html`<button type="button" class="more" onClick=${() => setMost(most + 500)}>Show more (${count(rest)})</button>`;
  return [items.slice(0, most), rest > 0 && more];
}

/**
 * A problem of one request, for the place where its answer would be.
 *
 * @param {{error: Error, reload?: () => void}} props
 */
export function Failure({ error, reload }) {
  return html`<div class="failure" role="alert">
    <p>${error.message}</p>
    ${reload && html`<button type="button" onClick=${reload}>Try again</button>`}
  </div>`;
}
