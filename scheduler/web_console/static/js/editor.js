/** A text area with line numbers, a problem at its line, and a place to drop files on. */
import { html, useEffect, useRef, useState } from "./html.js";

/** As in the style. */
const LINE = 18;
const PADDING = 8;
/** The server accepts no more. */
const MOST_BYTES = 2 ** 20;

/**
 * @param {object} props
 * @param {string} props.id
 * @param {string} props.value
 * @param {string} props.placeholder
 * @param {{line: number, message: string} | null} props.problem its line counts from 1
 * @param {(text: string) => void} props.onInput
 */
export function Editor({ id, value, placeholder, problem, onInput }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [note, setNote] = useState("");
  const lines = value.split("\n").length;
  const place = problem ? (problem.line - 1) * LINE + PADDING : 0;
  useEffect(() => {
    const { current } = area;
    if (!problem || !current) return;
    if (place < current.scrollTop || place + 3 * LINE > current.scrollTop + current.clientHeight) {
      current.scrollTop = Math.max(0, place - 3 * LINE);
    }
  }, [problem]);
  const drop = async (/** @type {DragEvent} */ event) => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return; // text, which the browser inserts
    event.preventDefault();
    if (files.reduce((sum, file) => sum + file.size, 0) > MOST_BYTES) {
      setNote("More than 1 MiB: the scheduler does not plan so much at once.");
      return;
    }
    setNote("");
    onInput((await Promise.all(files.map((file) => file.text()))).join("\n---\n"));
  };
  return html`<div class="editor" onDrop=${drop}
      onDragOver=${(/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") && event.preventDefault()}>
      <div class="gutter" aria-hidden="true">
        <div style=${{ marginTop: `${-top}px` }}>
          ${Array.from({ length: lines }, (_, index) => html`<span class=${problem?.line === index + 1 ? "wrong" : ""}>${index + 1}</span>`)}
        </div>
      </div>
      <textarea ref=${area} id=${id} spellcheck=${false} autocomplete="off" wrap="off" placeholder=${placeholder}
        aria-invalid=${problem ? "true" : "false"} aria-describedby=${problem ? `${id}-problem` : undefined} value=${value}
        onInput=${(/** @type {Typed} */ event) => onInput(event.currentTarget.value)}
        onScroll=${() => setTop(area.current?.scrollTop ?? 0)}></textarea>
      ${problem &&
      html`<p class="line-problem" id=${`${id}-problem`} role="alert" style=${{ top: `${place + LINE - top}px` }}>
        Line ${problem.line}: ${problem.message}
      </p>`}
    </div>
    ${note && html`<p class="failure" role="alert">${note}</p>`}`;
}
