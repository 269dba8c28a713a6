/** Draws the bars of nodes on a canvas. */
import { segments, use } from "./cluster_layout.js";
import { colour } from "./palette.js";
import { amount, percent, plural } from "./format.js";

const NAME_WIDTH = 132;
const FIGURE_WIDTH = 92;
/** Rows of this height have a bar for cpu and one for memory. */
const TWO_BARS = 44;
/** Nominated pods are drawn at least this long: they must not be missed. */
const LEAST_NOMINATED = 3;
/** Smaller areas would be outline only. */
const LEAST_OUTLINED = 5;

/**
 * @typedef {import("./cluster_layout.js").Bar} Bar
 * @typedef {import("./cluster_layout.js").Box} Box
 * @typedef {import("./cluster_layout.js").Segment} Segment
 * @typedef {(from: number, to: number) => Box} Place the rectangle of a part of a bar
 */

/**
 * What a drawing depends on besides the layout.
 *
 * @typedef {object} Look
 * @property {import("./theme.js").Theme} theme
 * @property {import("./palette.js").Scale} scale
 * @property {import("./cluster_layout.js").Mode} mode
 * @property {string} resource
 * @property {number} patterns how large an area must be so that a pattern repeats its colour
 * @property {string} highlight key of the only level in full colour, or empty
 * @property {string} selected name of a node, or empty
 * @property {string} hovered name of a node, or empty
 */
export class Painter {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Look} look
   */
  constructor(canvas, look) {
    this.canvas = canvas;
    this.context = contextOf(canvas);
    /** @type {Map<string, CanvasPattern>} */
    this.patterns = new Map();
    this.look = look;
    this.colours = this.readColours();
    this.font = getComputedStyle(canvas).fontFamily;
  }

  /**
   * Draw the part of the layout from `top` down that is visible.
   *
   * @param {import("./cluster_layout.js").Layout} plan
   * @param {Look} look
   * @param {{width: number, height: number, top: number}} view
   */
  draw(plan, look, { width, height, top }) {
    const ratio = devicePixelRatio || 1;
    const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixelWidth) this.canvas.width = pixelWidth;
    if (this.canvas.height !== pixelHeight) this.canvas.height = pixelHeight;
    if (this.look.theme !== look.theme) this.colours = this.readColours();
    this.look = look;
    const context = this.context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(0, -top);
    context.textBaseline = "middle";
    for (const header of plan.headers) {
      if (header.y + 26 >= top && header.y <= top + height) this.header(header, width);
    }
    for (const bar of plan.bars) {
      if (bar.y + bar.height < top || bar.y > top + height) continue;
      if (plan.mode === "rows") this.row(bar);
      else this.upright(bar);
    }
  }

  /** Colours of the style that have changed with the theme. */
  readColours() {
    const style = getComputedStyle(this.canvas);
    const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    this.patterns.clear();
    return {
      text: read("--text"),
      muted: read("--muted"),
      track: read("--track"),
      line: read("--line-strong"),
      accent: read("--accent"),
      ground: read("--ground"),
      danger: read("--danger"),
      ink: "rgba(0, 0, 0, 0.5)",
    };
  }

  /**
   * @param {import("./cluster_layout.js").Header} header
   * @param {number} width
   */
  header({ group, y }, width) {
    const { context, colours, look } = this;
    let [requested, allocatable] = [0, 0];
    for (const node of group.nodes) {
      const used = use(node, look.resource);
      requested += used.requested;
      allocatable += used.allocatable;
    }
    context.font = `600 12px ${this.font}`;
    context.fillStyle = colours.text;
    const name = this.fitted(group.name, width / 2);
    context.fillText(name, 0, y + 12);
    const end = context.measureText(name).width;
    context.font = `12px ${this.font}`;
    context.fillStyle = colours.muted;
    const part = allocatable > 0 ? percent(requested / allocatable) : "none";
    const text = `${plural(group.nodes.length, "node")}  ·  ${part} of ${look.resource} requested`;
    context.fillText(text, end + 10, y + 12);
  }

  /**
   * A node as a row: name, bar, figures.
   *
   * @param {Bar} bar
   */
  row(bar) {
    const { context, colours, look } = this;
    const { node, x, y, width, height } = bar;
    const middle = y + height / 2;
    this.rowState(bar);
    context.font = `12px ${this.font}`;
    context.fillStyle = node.unschedulable ? colours.muted : colours.text;
    context.fillText(this.fitted(node.name, NAME_WIDTH - 12), x + 4, middle);
    const shown = height < TWO_BARS ? [look.resource] : [look.resource, look.resource === "memory" ? "cpu" : "memory"];
    const part = (height - 12) / shown.length;
    shown.forEach((resource, index) => {
      const top = y + 6 + index * part;
      this.resource(node, resource, { x: x + NAME_WIDTH, y: top, width: width - NAME_WIDTH - 6, height: part - 4 * (shown.length - 1) });
    });
  }

  /**
   * The bar of a resource, and its figures.
   *
   * @param {Api.NodeUsage} node
   * @param {string} resource
   * @param {Box} box
   */
  resource(node, resource, { x, y, width, height }) {
    const { context, colours } = this;
    const track = { x, y, width: Math.max(20, width - FIGURE_WIDTH), height };
    this.track(track, node);
    this.fill(node, resource, (from, to) => ({
      x: track.x + from * track.width,
      y: track.y,
      width: (to - from) * track.width,
      height: track.height,
    }), track);
    const { requested, allocatable } = use(node, resource);
    context.font = `11px ${this.font}`;
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    const figure = node.unschedulable
      ? "cordoned"
      : `${amount(resource, requested)} / ${amount(resource, allocatable)}`;
    context.fillText(figure, x + width, y + height / 2);
    context.textAlign = "left";
  }

  /** @param {Bar} bar */
  rowState({ node, x, y, width, height }) {
    const { context, colours, look } = this;
    if (node.name !== look.selected && node.name !== look.hovered) return;
    context.fillStyle = colours.track;
    context.globalAlpha = node.name === look.selected ? 0.9 : 0.5;
    context.fillRect(x, y + 1, width, height - 2);
    context.globalAlpha = 1;
    if (node.name === look.selected) {
      context.fillStyle = colours.accent;
      context.fillRect(x - 3, y + 1, 3, height - 2);
    }
  }

  /**
   * A node as an upright bar, filled from below.
   *
   * @param {Bar} bar
   */
  upright(bar) {
    const { context, colours, look } = this;
    const { node, x, y, width, height } = bar;
    this.track(bar, node);
    this.fill(node, look.resource, (from, to) => ({
      x,
      y: y + height - to * height,
      width,
      height: (to - from) * height,
    }), bar);
    if (node.name === look.selected || node.name === look.hovered) {
      context.strokeStyle = node.name === look.selected ? colours.accent : colours.text;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, width + 2, height + 2);
    }
  }

  /**
   * @param {Box} box
   * @param {Api.NodeUsage} node
   */
  track({ x, y, width, height }, node) {
    const { context, colours } = this;
    context.fillStyle = colours.track;
    context.fillRect(x, y, width, height);
    if (!node.unschedulable) return;
    context.fillStyle = this.hatching("cordoned", colours.line, 1);
    context.fillRect(x, y, width, height);
  }

  /**
   * Fill a track with segments; `box` gives the rectangle from one part to another.
   *
   * @param {Api.NodeUsage} node
   * @param {string} resource
   * @param {Place} box
   * @param {Box} track
   */
  fill(node, resource, box, track) {
    let from = 0;
    const nominated = [];
    for (const segment of segments(node, resource)) {
      if (segment.nominated) {
        nominated.push(segment);
        continue;
      }
      const to = Math.min(1, from + segment.part);
      if (to > from) this.segment(segment, box(from, to), box(from, from + (to - from) * segment.terminating));
      from = to;
    }
    this.outline(box(0, from));
    for (const segment of nominated) from = this.nomination(segment, from, box, track);
  }

  /**
   * What is used, in a line that contrasts with the ground where a colour does not.
   *
   * @param {Box} used
   */
  outline({ x, y, width, height }) {
    if (width < LEAST_OUTLINED || height < LEAST_OUTLINED) return;
    this.context.strokeStyle = this.colours.muted;
    this.context.lineWidth = 1;
    this.context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  /**
   * @param {Segment} segment
   * @param {Box} whole
   * @param {Box} terminating
   */
  segment(segment, whole, terminating) {
    const { context, look } = this;
    const level = look.scale.of(segment.priority);
    const fill = colour(level);
    context.globalAlpha = look.highlight && look.highlight !== level.key ? 0.14 : 1;
    context.fillStyle = fill;
    context.fillRect(whole.x, whole.y, whole.width, whole.height);
    if (Math.min(whole.width, whole.height) >= look.patterns && level.pattern !== "solid") {
      context.fillStyle = this.texture(level.pattern);
      context.fillRect(whole.x, whole.y, whole.width, whole.height);
    }
    if (segment.terminating > 0) this.termination(terminating, whole);
    // A line between segments, where there is space for one.
    if (whole.width > 7 && whole.height > 7) this.edge(whole);
    context.globalAlpha = 1;
  }

  /**
   * Pods that terminate: crossed out in the colour of the background.
   *
   * @param {Box} part
   * @param {Box} whole
   */
  termination(part, whole) {
    const { context, colours } = this;
    const upright = whole.height >= whole.width || part.width === whole.width;
    const box = upright
      ? { ...part, height: Math.max(part.height, Math.min(whole.height, 4)) }
      : { ...part, width: Math.max(part.width, Math.min(whole.width, 6)) };
    context.fillStyle = this.hatching("terminating", colours.ground, 2);
    context.fillRect(box.x, box.y, box.width, box.height);
    context.fillStyle = colours.danger;
    if (upright) context.fillRect(box.x, box.y, box.width, 1);
    else context.fillRect(box.x, box.y + box.height - 2, box.width, 2);
  }

  /** @param {Box} box */
  edge({ x, y, width, height }) {
    const { context, colours } = this;
    context.fillStyle = colours.ground;
    const rows = height < width || this.look.mode === "rows";
    context.globalAlpha *= 0.65;
    if (rows) context.fillRect(x + width - 1, y, 1, height);
    else context.fillRect(x, y, width, 1);
  }

  /**
   * A nominated pod is outlined and hatched, beyond what is used or over the end of the bar.
   *
   * @param {Segment} segment
   * @param {number} from
   * @param {Place} box
   * @param {Box} track
   */
  nomination(segment, from, box, track) {
    const { context, look, colours } = this;
    const long = Math.max(track.width, track.height);
    const part = Math.max(segment.part, LEAST_NOMINATED / long);
    const begin = Math.min(from, Math.max(0, 1 - part));
    const end = Math.min(1, begin + part);
    const area = box(begin, end);
    const level = look.scale.of(segment.priority);
    const alpha = look.highlight && look.highlight !== level.key ? 0.3 : 1;
    context.globalAlpha = alpha * 0.5;
    context.fillStyle = colour(level);
    context.fillRect(area.x, area.y, area.width, area.height);
    context.globalAlpha = alpha;
    context.fillStyle = this.hatching("nominated", colours.text, 1.2);
    context.fillRect(area.x, area.y, area.width, area.height);
    context.strokeStyle = colours.text;
    context.lineWidth = 1.5;
    context.strokeRect(area.x + 0.75, area.y + 0.75, area.width - 1.5, area.height - 1.5);
    context.globalAlpha = 1;
    return end;
  }

  /**
   * @param {string} text
   * @param {number} width
   */
  fitted(text, width) {
    const { context } = this;
    if (context.measureText(text).width <= width) return text;
    let length = Math.max(1, Math.floor((text.length * width) / context.measureText(text).width));
    while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
    return `${text.slice(0, length)}…`;
  }

  /**
   * @param {string} name
   * @param {string} ink
   * @param {number} line
   */
  hatching(name, ink, line) {
    return this.tile(name, 6, (context, size) => {
      context.strokeStyle = ink;
      context.lineWidth = line;
      context.beginPath();
      for (const shift of [-size, 0, size]) {
        context.moveTo(shift - 1, size + 1);
        context.lineTo(shift + size + 1, -1);
      }
      context.stroke();
    });
  }

  /** @param {string} pattern */
  texture(pattern) {
    return this.tile(pattern, 4, (context, size) => {
      context.fillStyle = this.colours.ink;
      context.strokeStyle = this.colours.ink;
      if (pattern === "rows" || pattern === "grid") context.fillRect(0, 0, size, 1);
      if (pattern === "columns" || pattern === "grid") context.fillRect(0, 0, 1, size);
      if (pattern === "dots") context.fillRect(1, 1, 2, 2);
      if (pattern === "rising") {
        context.beginPath();
        context.moveTo(0, size);
        context.lineTo(size, 0);
        context.stroke();
      }
    });
  }

  /**
   * @param {string} name
   * @param {number} size
   * @param {(context: CanvasRenderingContext2D, size: number) => void} paint
   * @returns {CanvasPattern | string}
   */
  tile(name, size, paint) {
    const known = this.patterns.get(name);
    if (known) return known;
    const canvas = document.createElement("canvas");
    canvas.width = size;
    canvas.height = size;
    paint(contextOf(canvas), size);
    const made = this.context.createPattern(canvas, "repeat");
    if (!made) return "transparent";
    this.patterns.set(name, made);
    return made;
  }
}

/** @param {HTMLCanvasElement} canvas */
function contextOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}
