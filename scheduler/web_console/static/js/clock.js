/**
 * Ages by the server's clock, which may differ from that of the browser.
 */
import { useEffect, useState } from "./html.js";
import { summary } from "./documents.js";

let offset = 0;
let lastNow = "";

/** Return the server's time in milliseconds since 1970. */
export function serverNow() {
  const now = summary.data?.now;
  if (now && now !== lastNow) {
    lastNow = now;
    offset = Date.parse(now) - summary.fresh;
  }
  return Date.now() + (Number.isFinite(offset) ? offset : 0);
}

/**
 * Return the age of a time stamp in seconds; undefined if there is none.
 *
 * @param {string | undefined} stamp
 * @param {number} [now]
 */
export function age(stamp, now = serverNow()) {
  const at = Date.parse(stamp ?? "");
  return Number.isFinite(at) ? Math.max(0, (now - at) / 1000) : undefined;
}

/**
 * Render again every `seconds`, so that ages grow.
 *
 * @param {number} seconds
 */
export function useTicking(seconds) {
  const [, render] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => render((count) => count + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

