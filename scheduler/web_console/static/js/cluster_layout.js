/**
 * Where the bars of nodes are: pure functions from groups of nodes to rectangles.
 *
 * Few nodes are rows with names and figures (`rows`). Many are upright bars in a grid (`grid`), as
 * large as fits without scrolling, down to a size that can still be pointed at.
 */

/**
 * @typedef {{name: string, nodes: Api.NodeUsage[]}} NodeGroup
 * @typedef {{x: number, y: number, width: number, height: number}} Box in CSS pixels
 * @typedef {Box & {node: Api.NodeUsage}} Placed
 * @typedef {Placed & {row: number, column: number}} Bar
 * @typedef {{group: NodeGroup, y: number}} Header
 * @typedef {"rows" | "grid"} Mode
 * @typedef {{mode: Mode, bars: Bar[], headers: Header[], height: number, perRow: number}} Layout
 * @typedef {{priority: number, part: number, terminating: number, nominated: boolean}} Segment
 */

/** With more nodes than this, there is no space for names. */
const MOST_ROWS = 48;
const ROW_HEIGHT = 26;
/** Rows of few nodes fill the page, up to this height. */
const MOST_ROW_HEIGHT = 64;
const ROW_WIDTH = 400;
const HEADER = 26;
const GROUP_GAP = 12;
const COLUMN_GAP = 28;
/** Widths of bars in a grid, with the gap between them: the largest that fits is taken. */
const WIDTHS = [[18, 5], [14, 4], [11, 3], [9, 3], [8, 2], [7, 2], [6, 2], [5, 2], [5, 1], [4, 1]];
/** A bar is this many times as high as it is wide, or more if there is space. */
const SLENDER = 3.6;
const MOST_SLENDER = 6;
const LINE_GAP = 4;

/**
 * @param {NodeGroup[]} groups
 * @param {number} width of the area in CSS pixels
 * @param {number} height that is visible
 * @returns {Layout}
 */
export function layout(groups, width, height) {
  const total = groups.reduce((sum, group) => sum + group.nodes.length, 0);
  if (total <= MOST_ROWS) return rows(groups, width, height);
  return grid(groups, width, barSize(groups, width, height));
}

/**
 * @param {number} width
 * @param {{width: number, gap: number}} bar
 */
function columns(width, bar) {
  return Math.max(1, Math.floor((width + bar.gap) / (bar.width + bar.gap)));
}

/**
 * Return the size of bars with which all groups fit, or the smallest.
 *
 * @param {NodeGroup[]} groups
 * @param {number} width
 * @param {number} height
 */
function barSize(groups, width, height) {
  const headers = groups.length * (HEADER + GROUP_GAP);
  for (const [barWidth, gap] of WIDTHS) {
    const perRow = columns(width, { width: barWidth, gap });
    const lines = groups.reduce((sum, group) => sum + Math.ceil(group.nodes.length / perRow), 0);
    const space = Math.floor((height - headers) / lines) - LINE_GAP;
    if (space >= barWidth * SLENDER) {
      return { width: barWidth, gap, height: Math.min(space, barWidth * MOST_SLENDER) };
    }
  }
  const [barWidth, gap] = WIDTHS[WIDTHS.length - 1];
  return { width: barWidth, gap, height: Math.round(barWidth * MOST_SLENDER * 0.75) };
}

/**
 * @param {NodeGroup[]} groups
 * @param {number} width
 * @param {{width: number, gap: number, height: number}} size
 */
function grid(groups, width, size) {
  const perRow = columns(width, size);
  const [stepX, stepY] = [size.width + size.gap, size.height + LINE_GAP];
  return place(groups, perRow, stepY, (node, column, y) => ({
    node,
    x: column * stepX,
    y,
    width: size.width,
    height: size.height,
  }), "grid");
}

/**
 * Rows in as few columns as fit without scrolling, and as high as there is space.
 *
 * @param {NodeGroup[]} groups
 * @param {number} width
 * @param {number} height
 */
function rows(groups, width, height) {
  const most = Math.max(1, Math.floor((width + COLUMN_GAP) / (ROW_WIDTH + COLUMN_GAP)));
  const space = height - groups.length * (HEADER + GROUP_GAP);
  const linesOf = (/** @type {number} */ each) => groups.reduce((sum, group) => sum + Math.ceil(group.nodes.length / each), 0);
  let perRow = 1;
  while (perRow < most && linesOf(perRow) * ROW_HEIGHT > space) perRow += 1;
  const high = Math.floor(space / linesOf(perRow));
  const rowHeight = Math.min(MOST_ROW_HEIGHT, Math.max(ROW_HEIGHT, high));
  const columnWidth = Math.floor((width - (perRow - 1) * COLUMN_GAP) / perRow);
  return place(groups, perRow, rowHeight, (node, column, y) => ({
    node,
    x: column * (columnWidth + COLUMN_GAP),
    y,
    width: columnWidth,
    height: rowHeight,
  }), "rows");
}

/**
 * @param {NodeGroup[]} groups
 * @param {number} perRow
 * @param {number} stepY
 * @param {(node: Api.NodeUsage, column: number, y: number) => Placed} bar
 * @param {Mode} mode
 * @returns {Layout}
 */
function place(groups, perRow, stepY, bar, mode) {
  /** @type {Bar[]} */
  const bars = [];
  /** @type {Header[]} */
  const headers = [];
  let y = 0;
  let row = 0;
  for (const group of groups) {
    headers.push({ group, y });
    y += HEADER;
    group.nodes.forEach((node, index) => {
      const [column, line] = [index % perRow, Math.floor(index / perRow)];
      bars.push({ ...bar(node, column, y + line * stepY), row: row + line, column });
    });
    const lines = Math.ceil(group.nodes.length / perRow);
    y += lines * stepY + GROUP_GAP;
    row += lines;
  }
  return { mode, bars, headers, height: y, perRow };
}

/**
 * Return the index of the bar at a point, or -1.
 *
 * @param {Bar[]} bars
 * @param {number} x
 * @param {number} y
 */
export function at(bars, x, y) {
  return bars.findIndex(
    (bar) => x >= bar.x && x < bar.x + bar.width + 1 && y >= bar.y && y < bar.y + bar.height + 1,
  );
}

/**
 * Return the index of the bar that an arrow key leads to.
 *
 * @param {Bar[]} bars
 * @param {number} index
 * @param {string} key
 */
export function neighbour(bars, index, key) {
  if (index < 0) return 0;
  if (key === "ArrowRight") return Math.min(bars.length - 1, index + 1);
  if (key === "ArrowLeft") return Math.max(0, index - 1);
  const { row, column } = bars[index];
  const wanted = key === "ArrowDown" ? row + 1 : row - 1;
  let best = index;
  for (let i = 0; i < bars.length; i += 1) {
    if (bars[i].row === wanted && bars[i].column <= column) best = i;
  }
  return best;
}

/**
 * Return how much of a resource a node has, and how much of it is requested.
 *
 * @param {Api.NodeUsage} node
 * @param {string} resource
 */
export function use(node, resource) {
  const { allocatable = 0, requested = 0 } = node.resources?.[resource] ?? {};
  return { allocatable, requested, part: allocatable > 0 ? requested / allocatable : 0 };
}

/** @type {Record<string, (use: Api.PriorityUse) => number | undefined>} */
const SIZES = { cpu: (each) => each.cpu, memory: (each) => each.memory, pods: (each) => each.pods };

/**
 * Return the segments of a bar as parts of the node: those of pods on it from the highest
 * priority down, then those of nominated pods. `terminating` is a part of the segment.
 *
 * @param {Api.NodeUsage} node
 * @param {string} resource
 */
export function segments(node, resource) {
  const { allocatable } = use(node, resource);
  if (allocatable <= 0) return [];
  /** @type {Segment[]} */
  const found = [];
  for (const each of node.priorities ?? []) {
    const amount = SIZES[resource]?.(each) ?? 0;
    if (amount <= 0) continue;
    found.push({
      priority: each.priority,
      part: amount / allocatable,
      terminating: each.terminating ? each.terminating / Math.max(1, each.pods) : 0,
      nominated: Boolean(each.nominated),
    });
  }
  return found;
}

const byNumber = new Intl.Collator("en", { numeric: true }).compare;
/** @type {Record<string, (a: Api.NodeUsage, b: Api.NodeUsage, resource: string) => number>} */
const ORDERS = {
  name: (a, b) => byNumber(a.name, b.name),
  used: (a, b, resource) => use(b, resource).part - use(a, resource).part || byNumber(a.name, b.name),
};

/**
 * Return the nodes in groups by the value of a label, in order.
 *
 * @param {Iterable<Api.NodeUsage>} nodes
 * @param {{label: string, filter: string, order: string, resource: string}} choice
 */
export function grouped(nodes, { label, filter, order, resource }) {
  /** @type {Map<string, Api.NodeUsage[]>} */
  const groups = new Map();
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  for (const node of nodes) {
    const value = label ? (node.labels?.[label] ?? "") : "";
    const text = `${node.name} ${value}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const group = groups.get(value);
    if (group) group.push(node);
    else groups.set(value, [node]);
  }
  const compare = ORDERS[order] ?? ORDERS.name;
  return [...groups]
    .sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : byNumber(a, b)))
    .map(([value, members]) => ({
      name: label ? value || `without ${label}` : "all nodes",
      nodes: members.sort((a, b) => compare(a, b, resource)),
    }));
}
