/** Numbers, amounts and times as text. */

const WHOLE = new Intl.NumberFormat("en-US");
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
/** @type {Record<number, string>} */
const SYSTEM = {
  2000001000: "system-node-critical",
  2000000000: "system-cluster-critical",
};

/** @param {number} [number] */
export const count = (number = 0) => WHOLE.format(number);
/** @param {number} number */
export const short = (number) => (Math.abs(number) < 10_000 ? WHOLE : SHORT).format(number);
/** @param {number} part */
export const percent = (part) => `${Math.round(100 * part)} %`;
/** @type {(number: number, one: string, many?: string) => string} */
export const plural = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

/**
 * Return a duration by its two largest units.
 *
 * @param {number | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  /** @type {[number, string][]} */
  const parts = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0s";
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount}${unit}`)
    .join(" ");
}

/**
 * Return an amount of cpu, given in milli-units, in cores.
 *
 * @param {number} milli
 */
export function cpu(milli) {
  if (!milli) return "0";
  return Math.abs(milli) < 1000 ? `${Math.round(milli)}m` : trimmed(milli / 1000);
}

/**
 * Return an amount of bytes.
 *
 * @param {number} amount
 */
export function bytes(amount) {
  let rest = amount;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${trimmed(rest)}${UNITS[unit]}`;
}

/** @param {number} number */
function trimmed(number) {
  const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
  return WHOLE.format(Number(number.toFixed(digits)));
}

const IN_BYTES = /^(memory|ephemeral-storage|storage)$|^hugepages-/;

/**
 * @param {string} resource
 * @param {number} number
 */
export function amount(resource, number) {
  if (resource === "cpu") return cpu(number);
  return IN_BYTES.test(resource) ? bytes(number) : count(number);
}

/**
 * Return requests as `2 cpu · 4Gi memory`, or shorter as `2 cpu · 4Gi`.
 *
 * @param {Record<string, number> | undefined} amounts
 * @param {boolean} [brief]
 */
export function requests(amounts, brief = false) {
  const entries = Object.entries(amounts ?? {}).filter(([name, number]) => number && name !== "pods");
  /** @type {(entry: [string, number]) => string} */
  const text = ([name, number]) =>
    brief && name === "memory" ? bytes(number) : `${amount(name, number)} ${name}`;
  return entries.map(text).join(" · ") || "none";
}

/** What is lost, by resource: its unit, and how much of it makes one. */
/** @type {[resource: string, unit: string, one: number][]} */
const COSTS = [["cpu", "core-h", 1000], ["memory", "GiB-h", 2 ** 30], ["pods", "pod-h", 1]];

/**
 * Return the cost of a preemption: amounts times the hours that the victims had run.
 *
 * @param {Record<string, number> | undefined} amounts multiplied by seconds
 * @param {string} [only] a resource
 */
export function cost(amounts = {}, only = "") {
  return COSTS.filter(([resource]) => resource in amounts && (!only || resource === only)).map(
    ([resource, unit, one]) => `${hours(amounts[resource] / one / 3600)} ${unit}`,
  );
}

/** @param {number} number */
const hours = (number) => (number < 1 ? `${Number(number.toPrecision(2))}` : trimmed(number));

/**
 * Return a priority; the classes that every cluster has are named.
 *
 * @param {number} number
 */
export function priority(number) {
  return SYSTEM[number] ?? count(number);
}

/**
 * Return a time of today, or with its day if it is another one.
 *
 * @param {string | number} stamp
 * @param {string | number} now
 */
export function time(stamp, now) {
  const at = new Date(stamp);
  if (Number.isNaN(at.getTime())) return "–";
  const clock = at.toLocaleTimeString("en-GB");
  const today = new Date(now).toDateString() === at.toDateString();
  return today ? clock : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/**
 * Return a text of the scheduler with its moments, which are as in RFC 3339, as times of here.
 *
 * @param {string} text
 * @param {string | number} now
 */
export const localTimes = (text, now) =>
  text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (stamp) => time(stamp, now));

/**
 * Return the name of a pod with its namespace, or that it is hidden.
 *
 * @param {Api.PodView} pod
 */
export function podName(pod) {
  return pod.hidden ? "hidden pod" : `${pod.namespace}/${pod.name}`;
}

/**
 * Return whether all words of a filter occur in texts.
 *
 * @param {string} filter
 * @param {(string | undefined)[]} texts
 */
export function hasWords(filter, texts) {
  const text = texts.join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Return an order in which `node-2` comes before `node-10`. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
