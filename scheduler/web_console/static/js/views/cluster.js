/** Every node of the cluster as a bar. */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { nodesWith } from "../documents.js";
import { NO_LABEL, chosenLabel, labelOptions, useLabels } from "../node_labels.js";
import { useLive } from "../live.js";
import { useStore } from "../store.js";
import { refine, route, useFilter } from "../route.js";
import { theme } from "../theme.js";
import { asked, patterned, scale, see, setPatterns } from "../palette.js";
import { useShortcuts } from "../keyboard.js";
import { at, grouped, layout, neighbour, use } from "../cluster_layout.js";
import { Painter } from "../cluster_canvas.js";
import { amount, count, percent, plural } from "../format.js";
import { Choice, Empty, Filter, Priority, Select, Swatch, Term, focusFilter } from "../parts.js";
import { NodePanel } from "./node_panel.js";

/** @type {import("../parts.js").Options} */
const RESOURCES = [["cpu", "cpu"], ["memory", "memory"], ["pods", "pods"]];
/** @type {import("../parts.js").Options} */
const ORDERS = [["name", "Name"], ["used", "Most requested"]];
/** The least size in pixels of a pattern that was not asked for: smaller ones cost time and say nothing. */
const LEGIBLE = 8;
/** @typedef {import("../cluster_layout.js").NodeGroup} NodeGroup */
/** @typedef {import("../cluster_layout.js").Layout} Layout */
/** @typedef {import("../cluster_canvas.js").Look} Look */

export function ClusterView() {
  const { query } = useStore(route);
  const labels = useLabels();
  const label = chosenLabel(query.get("by"), labels);
  if (label === undefined) return html`<div class="view view-cluster"></div>`;
  return html`<${Nodes} label=${label} labels=${labels.data?.items ?? []} query=${query} />`;
}

/** @param {{label: string, labels: Api.LabelView[], query: URLSearchParams}} props */
function Nodes({ label, labels, query }) {
  const live = useLive(useMemo(() => nodesWith(label), [label]));
  const [filter, setFilter] = useFilter();
  const [highlight, setHighlight] = useState("");
  const decided = useStore(asked);
  const patterns = patterned(useStore(scale), decided);
  const resource = query.get("of") ?? "cpu";
  const order = query.get("order") ?? "name";
  const selected = query.get("node") ?? "";
  const nodes = live.data?.nodes;
  useLayoutEffect(() => {
    if (nodes) see(prioritiesOf(nodes));
  }, [live.data]);
  const groups = useMemo(
    () => (nodes ? grouped(nodes.values(), { label, filter, order, resource }) : []),
    [live.data, label, filter, order, resource],
  );
  const togglePatterns = () => setPatterns(!patterns);
  useShortcuts(
    [
      ["/", "Filter nodes", focusFilter],
      ["p", "Patterns on bars", togglePatterns],
      ["Escape", "Close the details", () => refine({ node: "" })],
    ],
    [patterns],
  );
  return html`<div class="view view-cluster">
    <div class="toolbar">
      <${Filter} value=${filter} onInput=${setFilter} placeholder="Filter nodes" />
      <${Select}
        label="Group by"
        id="group-by"
        value=${label || NO_LABEL}
        options=${labelOptions(labels, label)}
        onChange=${(/** @type {string} */ by) => refine({ by })}
      />
      <${Choice} label="Of" options=${RESOURCES} value=${resource} onChange=${(/** @type {string} */ of) => refine({ of })} />
      <${Choice} label="Order" options=${ORDERS} value=${order} onChange=${(/** @type {string} */ next) => refine({ order: next })} />
      <label class="check"
        ><input type="checkbox" checked=${patterns} onChange=${togglePatterns} />Patterns</label
      >
    </div>
    <${Legend} highlight=${highlight} onHighlight=${setHighlight}>
      <span class="grow"></span>
      ${nodes && html`<${Totals} groups=${groups} resource=${resource} />`}
    <//>
    <div class="split">
      ${nodes
        ? html`<${Bars}
            groups=${groups}
            known=${nodes.size}
            version=${live.data}
            look=${{ resource, patterns: !patterns ? Infinity : decided ? 0 : LEGIBLE, highlight, selected }}
          />`
        : html`<div class="bars-wait">${!live.error && "Loading nodes …"}</div>`}
      ${selected &&
      html`<${NodePanel} name=${selected} node=${nodes?.get(selected)} onClose=${() => refine({ node: "" })} />`}
    </div>
  </div>`;
}

/** @param {Map<string, Api.NodeUsage>} nodes */
function prioritiesOf(nodes) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const node of nodes.values()) for (const each of node.priorities ?? []) found.add(each.priority);
  return found;
}

/** @param {{groups: NodeGroup[], resource: string}} props */
function Totals({ groups, resource }) {
  let [requested, allocatable, shown] = [0, 0, 0];
  for (const group of groups) {
    shown += group.nodes.length;
    for (const node of group.nodes) {
      const used = use(node, resource);
      requested += used.requested;
      allocatable += used.allocatable;
    }
  }
  const part = allocatable ? ` (${percent(requested / allocatable)})` : "";
  return html`<span class="totals" id="totals"
    >${plural(shown, "node")}, ${amount(resource, requested)} of ${amount(resource, allocatable)}
    ${" "}${resource}${part}</span
  >`;
}

/** @param {{highlight: string, onHighlight: (key: string) => void, children?: Content}} props */
function Legend({ highlight, onHighlight, children }) {
  const { levels } = useStore(scale);
  return html`<div class="legend" role="group" aria-label="Priorities: choose one to see only that">
    <span class="legend-title">Priority</span>
    ${levels.map(
      (level) =>
        html`<button
          type="button"
          key=${level.key}
          aria-pressed=${level.key === highlight ? "true" : "false"}
          onClick=${() => onHighlight(level.key === highlight ? "" : level.key)}
        >
          <${Swatch} level=${level} />${level.label}
        </button>`,
    )}
    <span class="legend-mark"><span class="mark mark-nominated"></span><${Term} word="nominated" /></span>
    <span class="legend-mark"><span class="mark mark-terminating"></span><${Term} word="terminating" /></span>
    <span class="legend-mark"><span class="mark mark-cordoned"></span>unschedulable</span>
    ${children}
  </div>`;
}

/**
 * The canvas, with pointing and arrow keys.
 *
 * @param {{groups: NodeGroup[], known: number, version: {revision: number}, look: Pick<Look, "resource" | "patterns" | "highlight" | "selected">}} props
 */
function Bars({ groups, known, version, look }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const painter = useRef(/** @type {Painter | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [pointed, setPointed] = useState(/** @type {{node: string, x: number, y: number} | null} */ (null));
  const [cursor, setCursor] = useState("");
  const mode = useStore(theme);
  const levels = useStore(scale);
  const plan = useMemo(
    () => (size.width ? layout(groups, size.width - 8, size.height - 4) : null),
    [groups, size],
  );

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const measure = () => setSize({ width: element.clientWidth - 16, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const hovered = pointed?.node ?? cursor;
  const paint = () => {
    if (!plan || !canvas.current || !scroller.current) return;
    const whole = { ...look, mode: plan.mode, scale: levels, theme: mode, hovered };
    painter.current ??= new Painter(canvas.current, whole);
    const view = { width: size.width, height: size.height, top: scroller.current.scrollTop - 4 };
    painter.current.draw(plan, whole, view);
    canvas.current.dataset.nodes = String(plan.bars.length);
    canvas.current.dataset.mode = plan.mode;
    canvas.current.dataset.revision = String(version.revision);
    measureFirst(plan.bars.length);
  };
  useLayoutEffect(paint);
  useEffect(() => reveal(scroller.current, plan, look.selected), [look.selected, plan?.mode]);

  /** @param {MouseEvent} event */
  const nodeAt = (event) => {
    if (!plan || !canvas.current || !scroller.current) return undefined;
    const box = canvas.current.getBoundingClientRect();
    const y = event.clientY - box.top + scroller.current.scrollTop;
    return plan.bars[at(plan.bars, event.clientX - box.left - 4, y - 4)]?.node.name;
  };
  /** @param {MouseEvent} event */
  const point = (event) => {
    const node = nodeAt(event);
    setPointed(node === undefined ? null : { node, x: event.clientX, y: event.clientY });
  };
  /** @param {MouseEvent} event */
  const choose = (event) => {
    const node = nodeAt(event);
    if (node !== undefined) refine({ node });
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === "Enter" && cursor) refine({ node: cursor });
    else if (event.key.startsWith("Arrow") && plan?.bars.length) {
      const from = plan.bars.findIndex((bar) => bar.node.name === cursor);
      const next = plan.bars[neighbour(plan.bars, from, event.key)];
      setCursor(next.node.name);
      reveal(scroller.current, plan, next.node.name);
    } else return;
    event.preventDefault();
  };
  const shown = plan?.bars.find((bar) => bar.node.name === hovered)?.node;
  if (groups.length === 0) {
    return html`<div class="bars" ref=${scroller}><${Empty} title="No nodes">${known > 0 ? "No node matches the filter." : "The cluster has none."}<//></div>`;
  }
  return html`<div class="bars" ref=${scroller} onScroll=${paint}>
    <div class="bars-space" style=${{ height: `${(plan?.height ?? 0) + 8}px` }}>
      <canvas
        ref=${canvas}
        tabindex="0"
        role="application"
        data-arrows
        aria-roledescription="map of nodes"
        aria-label=${`${plural(plan?.bars.length ?? 0, "node")}; move with the arrow keys, Enter shows details`}
        style=${{ width: `${size.width}px`, height: `${size.height}px` }}
        onMouseMove=${point}
        onMouseLeave=${() => setPointed(null)}
        onBlur=${() => setCursor("")}
        onKeyDown=${onKeyDown}
        onClick=${choose}
      ></canvas>
    </div>
    <p class="visually-hidden" aria-live="polite">${cursor && shown ? described(shown, look.resource) : ""}</p>
    ${shown && html`<${Tip} node=${shown} at=${pointed ?? tipPlace(canvas.current, scroller.current, plan, shown)} />`}
  </div>`;
}

/**
 * The time from the request of the view to the first drawing of nodes is an entry of the browser.
 *
 * @param {number} bars
 */
function measureFirst(bars) {
  if (bars === 0 || performance.getEntriesByName("console.cluster").length > 0) return;
  performance.measure("console.cluster", { start: 0, end: performance.now() });
}

/**
 * @param {HTMLElement | null} scroller
 * @param {Layout | null} plan
 * @param {string} name
 */
function reveal(scroller, plan, name) {
  const bar = plan?.bars.find((each) => each.node.name === name);
  if (!bar || !scroller) return;
  const { scrollTop, clientHeight } = scroller;
  if (bar.y < scrollTop) scroller.scrollTop = bar.y - 30;
  else if (bar.y + bar.height > scrollTop + clientHeight) {
    scroller.scrollTop = bar.y + bar.height - clientHeight + 12;
  }
}

/**
 * @param {HTMLElement | null} canvas
 * @param {HTMLElement | null} scroller
 * @param {Layout | null} plan
 * @param {Api.NodeUsage} node
 */
function tipPlace(canvas, scroller, plan, node) {
  const bar = plan?.bars.find((each) => each.node === node);
  if (!canvas || !scroller || !bar) return { x: 0, y: 0 };
  const box = canvas.getBoundingClientRect();
  return { x: box.left + bar.x + Math.min(bar.width, 200), y: box.top + bar.y - scroller.scrollTop + bar.height };
}

/**
 * @param {Api.NodeUsage} node
 * @param {string} resource
 */
function described(node, resource) {
  const { requested, allocatable, part } = use(node, resource);
  const cordoned = node.unschedulable ? ", unschedulable" : "";
  return `${node.name}${cordoned}: ${amount(resource, requested)} of ${amount(resource, allocatable)} ${resource}, ${percent(part)}`;
}

/**
 * What a bar shows, in figures.
 *
 * @param {{node: Api.NodeUsage, at: {x: number, y: number}}} props
 */
function Tip({ node, at: place }) {
  const right = place.x > innerWidth - 320;
  const low = place.y > innerHeight - 260;
  const style = {
    left: right ? "auto" : `${place.x + 14}px`,
    right: right ? `${innerWidth - place.x + 14}px` : "auto",
    top: low ? "auto" : `${place.y + 14}px`,
    bottom: low ? `${innerHeight - place.y + 14}px` : "auto",
  };
  return html`<div class="tip" style=${style}>
    <p class="tip-title">${node.name}${node.unschedulable && html` <span class="tag">unschedulable</span>`}</p>
    <dl class="pairs">
      ${Object.keys(node.resources ?? {}).map((resource) => {
        const { requested, allocatable, part } = use(node, resource);
        return html`<dt>${resource}</dt>
          <dd>${amount(resource, requested)} / ${amount(resource, allocatable)} <span class="muted">${percent(part)}</span></dd>`;
      })}
    </dl>
    <table class="tip-table">
      ${(node.priorities ?? []).map(
        (each) =>
          html`<tr>
            <td><${Priority} value=${each.priority} /></td>
            <td class="number">${count(each.pods)} ${each.pods === 1 ? "pod" : "pods"}</td>
            <td class="muted">
              ${each.nominated ? "nominated" : each.terminating ? `${each.terminating} terminating` : ""}
            </td>
          </tr>`,
      )}
    </table>
  </div>`;
}
