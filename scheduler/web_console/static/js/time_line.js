/** Victims over time, as bars: the chart and, as pure functions, its figures. */
import { html, useEffect, useLayoutEffect, useRef } from "./html.js";
import uPlot from "../vendor/uplot.js";
import { theme } from "./theme.js";
import { useStore } from "./store.js";

const HEIGHT = 168;
/** Lengths of a bar in seconds: the first with which there are few enough bars is taken. */
const STEPS = [60, 120, 300, 600, 1800, 3600];
const MOST_BARS = 75;

/** @typedef {[number[], number[], number[], number[]]} Columns */

/**
 * Count preemptions by time.
 *
 * @param {Api.PreemptionView[]} items
 * @param {number} until end of the last bar, in seconds since 1970
 * @param {number} span length of the time line in seconds
 * @returns {{step: number, columns: Columns}} columns are times, victims, wasted victims and
 *   preemptions
 */
export function buckets(items, until, span) {
  const step = STEPS.find((each) => span / each <= MOST_BARS) ?? STEPS[STEPS.length - 1];
  const amount = Math.ceil(span / step);
  const last = Math.floor(until / step) * step;
  const first = last - (amount - 1) * step;
  const times = Array.from({ length: amount }, (_, index) => first + index * step);
  /** @returns {number[]} */
  const zeros = () => new Array(amount).fill(0);
  const [victims, wasted, preemptions] = [zeros(), zeros(), zeros()];
  for (const item of items) {
    const index = Math.floor((Date.parse(item.decidedAt) / 1000 - first) / step);
    if (!(index >= 0 && index < amount)) continue;
    const all = item.victims ?? [];
    victims[index] += all.length + (item.hiddenVictims ?? 0);
    wasted[index] += all.filter((victim) => victim.wasted).length;
    preemptions[index] += 1;
  }
  return { step, columns: [times, victims, wasted, preemptions] };
}

/**
 * The chart; dragging over it calls `onSelect` with a span of seconds since 1970.
 *
 * @param {{columns: Columns, step: number, onSelect: (span: [number, number]) => void}} props
 */
export function TimeLine({ columns, step, onSelect }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const select = useRef(onSelect);
  select.current = onSelect;
  const mode = useStore(theme);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(options(element, step, (span) => select.current(span)), columns, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [mode, step, columns[0].length]);
  useEffect(() => plot.current?.setData(columns), [columns]);
  const text = `Time line: ${total(columns[3])} preemptions with ${total(columns[1])} victims, ${total(columns[2])} of them wasted`;
  return html`<div class="time-line" ref=${place} role="img" aria-label=${text}></div>`;
}

/** @param {ArrayLike<number | null | undefined>} column */
function total(column) {
  return Array.from(column).reduce((/** @type {number} */ sum, number) => sum + (number ?? 0), 0);
}

/**
 * @param {HTMLElement} element
 * @param {number} step
 * @param {(span: [number, number]) => void} onSelect
 * @returns {uPlot.Options}
 */
function options(element, step, onSelect) {
  const style = getComputedStyle(element);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: read("--muted"),
    grid: { stroke: read("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  const bars = uPlot.paths.bars?.({ size: [0.72, 40], align: 1 });
  /** @type {(label: string, colour: string) => uPlot.Series} */
  const series = (label, colour) => ({
    label,
    fill: colour,
    stroke: colour,
    width: 0,
    paths: bars,
    points: { show: false },
    // Where the pointer is; otherwise of the whole time.
    value: (plot, number, index) => number ?? total(plot.data[index] ?? []),
  });
  const clock = (/** @type {number} */ at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    select: { show: true, left: 0, top: 0, width: 0, height: 0 },
    legend: { live: true },
    scales: {
      x: { time: true, range: (_, low, high) => [low, high + step] },
      y: { range: (_, _low, high) => [0, Math.max(4, Math.ceil(high * 1.1))] },
    },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map(clock), space: 70, size: 28 },
      { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
    ],
    series: [
      { label: "From", value: (plot, at) => clock(at ?? plot.data[0][0]) },
      series("Victims", read("--accent")),
      series("Wasted", read("--danger")),
      { ...series("Preemptions", read("--muted")), paths: () => null },
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          onSelect([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
    },
  };
}
