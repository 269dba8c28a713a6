/** What is above each view: the state of the connection, problems, figures. */
import { html, useEffect } from "./html.js";
import { summary } from "./documents.js";
import { useLive } from "./live.js";
import { problems, sources } from "./health.js";
import { useStore } from "./store.js";
import { serverNow, useTicking } from "./clock.js";
import { to } from "./route.js";
import { signIn, target } from "./target.js";
import { PHASES, meaningOf } from "./terms.js";
import { count, duration, short, time } from "./format.js";

/** Whether the data are live. */
export function Connection() {
  useStore(sources);
  const live = useLive(summary);
  const failing = problems().length > 0;
  const [tone, text] = !live.data && !live.error
    ? ["quiet", "connecting"]
    : failing
      ? ["bad", "not up to date"]
      : ["good", "live"];
  const title = live.data ? `follows kube-scheduler ${live.data.reference}` : "";
  return html`<span class="state connection tone-${tone}" title=${title} id="connection">${text}</span>`;
}

/** Which cluster this is, and as whom the page asks. */
export function Target() {
  const { name, cluster, user, colour } = target;
  if (!name) return null;
  const title = [cluster && `Cluster ${cluster}`, user && `asked as ${user}`].filter(Boolean).join(", ");
  return html`<span class="target target-${colour}" title=${title} id="target">
    ${name}${user && html` <span class="target-user">${user}</span>`}
  </span>`;
}

/** Problems of the API, in words that say what to do. */
export function Banner() {
  useStore(sources);
  useTicking(1);
  const { data } = useLive(summary);
  const found = problems();
  return html`<div id="problems" role="status">
    ${found.map((problem) => html`<${Problem} key=${problem.key} problem=${problem} />`)}
    ${found.length === 0 && data && !data.leader && html`<${Standby} />`}
  </div>`;
}

/** @type {Record<string, string>} */
const TITLES = {
  unreachable: "No answer",
  unavailable: "No answer from the scheduler",
  unauthorized: "You are not signed in",
  busy: "Too many requests at once",
  forbidden: "You may not read this",
  failed: "The request failed",
};

/** @param {{problem: import("./health.js").Problem}} props */
function Problem({ problem }) {
  if (problem.error.kind === "unauthorized") return html`<${SignIn} error=${problem.error} fresh=${problem.fresh} />`;
  const { error, since, fresh, retryAt, retries, paths } = problem;
  const forbidden = error.kind === "forbidden";
  const now = Date.now();
  const wait = Math.max(0, Math.ceil((retryAt - now) / 1000));
  return html`<div class="banner banner-${forbidden ? "warn" : "bad"} problem-${error.kind}">
    <div class="banner-text">
      <strong>${TITLES[error.kind] ?? TITLES.failed}</strong>
      <span>${error.message}</span>
      <span class="muted">${staleness(fresh, since, now)} ${wait > 0 ? `Next attempt in ${wait} s.` : "Trying again …"}</span>
      ${forbidden && html`<${MissingRule} verb=${error.verb} paths=${[...paths]} />`}
    </div>
    <button type="button" onClick=${() => retries.forEach((retry) => retry())}>Try now</button>
  </div>`;
}

/**
 * The session has ended: without the key, or a token, no attempt succeeds. Who has followed a link
 * from elsewhere without a session has seen nothing yet, and gets the form at once.
 *
 * @param {{error: Error, fresh: number}} props
 */
function SignIn({ error, fresh }) {
  const isNew = !fresh && target.session === "token";
  useEffect(() => {
    if (isNew) signIn();
  }, [isNew]);
  return html`<div class="banner banner-bad problem-unauthorized">
    <div class="banner-text"><strong>${TITLES.unauthorized}</strong> <span>${error.message}</span></div>
    <button type="button" onClick=${signIn}>${target.session === "key" ? "Enter the key" : "Sign in"}</button>
  </div>`;
}

/**
 * @param {number} fresh
 * @param {number} since
 * @param {number} now
 */
function staleness(fresh, since, now) {
  const failing = `Fails for ${duration((now - since) / 1000)}.`;
  if (!fresh) return failing;
  return `${failing} What is shown is from ${time(fresh, now)} (${duration((now - fresh) / 1000)} ago).`;
}

/**
 * The rule that a ClusterRole needs so that requests are granted.
 *
 * @param {{verb: string, paths: string[]}} props
 */
export function MissingRule({ verb, paths }) {
  // Objects below a list have names; a rule covers all of them.
  const urls = paths.map((path) => path.replace(/(\/api\/v1\/[^/]+)\/.*$/, "$1/*"));
  const text = `- nonResourceURLs: ${JSON.stringify([...new Set(urls)].sort())}\n  verbs: ["${verb}"]`;
  return html`<span>Ask for a ClusterRole with this rule:</span>
    <pre class="rule">${text}</pre>`;
}

function Standby() {
  return html`<div class="banner banner-warn problem-standby">
    <div class="banner-text">
      <strong>This replica is on standby</strong>
      <span>It does not schedule pods, so it has no queue and no preemptions. Start the console again: it connects to the leader.</span>
    </div>
  </div>`;
}

/** The figures at the head of each view. */
export function Figures() {
  useTicking(5);
  const { data } = useLive(summary);
  const queue = data?.queue ?? {};
  const pending = Object.values(queue).reduce((sum, pods) => sum + pods, 0);
  const phases = PHASES.filter((phase) => queue[phase] > 0);
  const oldest = data ? duration((data.oldestPendingSeconds ?? 0) + Math.max(0, (serverNow() - Date.parse(data.now)) / 1000)) : "";
  const value = (/** @type {number | undefined} */ number) => (data ? short(number ?? 0) : "–");
  return html`<dl class="figures" aria-label="Figures">
    <${Figure} term="Nodes" value=${value(data?.nodes)} exact=${data?.nodes} />
    <${Figure} term="Pods on nodes" value=${value(data?.pods)} exact=${data?.pods} />
    <${Figure} term="Waiting" yields value=${value(pending)} exact=${pending} href=${to("waiting")}
      note=${phases.map((phase) => `${short(queue[phase])} ${phase}`).join(" · ")} />
    <${Figure} term="Oldest" value=${data && pending > 0 ? oldest : "–"} />
    <${Figure} term="Preempting now" value=${value(data?.preemptionsActive)} href=${to("preemptions")} />
    <${Figure} term="Victims" value=${value(data?.victims)} title=${`Pods that were evicted since this replica started. Wasted: ${meaningOf("wasted")}`}
      note=${data ? `${short(data.wastedVictims ?? 0)} wasted` : ""} />
  </dl>`;
}

/** @param {{term: string, value: string, exact?: number, note?: string, href?: string, yields?: boolean, title?: string}} props */
function Figure({ term, value, exact, note, href, yields = false, title }) {
  // Only where it says more than what is shown.
  title ??= exact !== undefined && (count(exact) !== value || note) ? [count(exact), note].filter(Boolean).join(": ") : undefined;
  const body = html`<dt>${term}</dt>
    <dd title=${title}>${value}${note && html` <span class="note">${note}</span>`}</dd>`;
  return href ? html`<div class=${yields ? "yields" : ""}><a href=${href} class="figure">${body}</a></div>` : html`<div class="figure">${body}</div>`;
}
