/**
 * Colours and patterns of priorities.
 *
 * Priorities are ranked, and ranks get colours of one ramp whose lightness only rises: the order is
 * legible in shades of grey, so for colour-blind people as well. It is the same on dark and on light
 * pages, so that pictures can be compared; bars have an outline, which both grounds contrast with.
 * Patterns repeat the order without any colour. Priorities of the system are grey: their pods are on
 * every node and are hardly ever victims.
 */
import { Store } from "./store.js";
import { remember, remembered } from "./storage.js";
import { priority as shown } from "./format.js";

/**
 * Priorities with one colour: `step` is that of the ramp, -1 for those of the system.
 *
 * @typedef {{members: number[], label: string, step: number, pattern: string, key: string}} Level
 * @typedef {{levels: Level[], of: (priority: number) => Level}} Scale
 */

/** From the lowest priority to the highest; neighbours have a contrast of 1.5:1. */
const RAMP = ["#472bb7", "#2560b7", "#178b8b", "#34b166", "#90d13d", "#f6e993"];
const SYSTEM_COLOUR = "#7d8590";
/** Up to so many levels have patterns until the user decides otherwise: more are unquiet. */
const MOST_PATTERNED = 4;
const KEPT = "patterns";
const SYSTEM_PRIORITY = 2_000_000_000;
/** Patterns by rank; a canvas draws them, and legends have them as classes. */
export const PATTERNS = ["solid", "rows", "columns", "dots", "grid", "rising"];

/** All priorities that were seen, so that a colour means the same in every view. */
const seen = /** @type {Set<number>} */ (new Set());
export const scale = new Store(makeScale([]));

/**
 * Take priorities into the scale.
 *
 * @param {Iterable<number>} priorities
 */
export function see(priorities) {
  const before = seen.size;
  for (const priority of priorities) seen.add(priority);
  if (seen.size !== before) scale.set(makeScale([...seen]));
}

/**
 * Return the levels of a set of priorities, highest first, and the level of each priority.
 *
 * There are at most six levels and the system's; neighbours share one where there are more.
 *
 * @param {number[]} priorities
 * @returns {Scale}
 */
export function makeScale(priorities) {
  const own = priorities.filter((each) => each < SYSTEM_PRIORITY).sort((a, b) => a - b);
  const system = priorities.filter((each) => each >= SYSTEM_PRIORITY).sort((a, b) => a - b);
  const size = RAMP.length;
  /** @type {Level[]} */
  const levels = [];
  /** @type {Map<number, Level>} */
  const byPriority = new Map();
  const amount = Math.min(size, own.length);
  for (let level = 0; level < amount; level += 1) {
    const members = own.slice(
      Math.floor((level * own.length) / amount),
      Math.floor(((level + 1) * own.length) / amount),
    );
    // Few levels are spread over the whole ramp.
    const step = amount === 1 ? size - 3 : Math.round((level * (size - 1)) / (amount - 1));
    levels.unshift(makeLevel(members, step, level % PATTERNS.length));
  }
  if (system.length > 0) levels.unshift(makeLevel(system, -1, 0));
  for (const level of levels) for (const member of level.members) byPriority.set(member, level);
  return { levels, of: (priority) => byPriority.get(priority) ?? makeLevel([priority], 0, 0) };
}

/**
 * @param {number[]} members in order; at least one
 * @param {number} step
 * @param {number} pattern
 * @returns {Level}
 */
function makeLevel(members, step, pattern) {
  const [low, high] = [members[0], members[members.length - 1]];
  const label =
    step < 0 ? "system" : low === high ? shown(low) : `${shown(low)} to ${shown(high)}`;
  return { members, label, step, pattern: PATTERNS[pattern], key: `${low}` };
}

/**
 * Return the colour of a level.
 *
 * @param {Level} level
 */
export function colour(level) {
  return level.step < 0 ? SYSTEM_COLOUR : RAMP[level.step];
}

/** What the user has decided about patterns: "1", "0", or nothing yet. */
export const asked = new Store(remembered(KEPT));

/**
 * Return whether levels have patterns.
 *
 * @param {Scale} levels
 * @param {string | null} decided
 */
export function patterned({ levels }, decided) {
  if (decided) return decided === "1";
  return levels.filter((level) => level.step >= 0).length <= MOST_PATTERNED;
}

/** @param {boolean} on */
export function setPatterns(on) {
  remember(KEPT, on ? "1" : "0");
  asked.set(on ? "1" : "0");
}
