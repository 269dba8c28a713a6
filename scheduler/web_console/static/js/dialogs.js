/** The help, the download of the recording, and the end of the session. */
import { html, useRef, useState } from "./html.js";
import { answer } from "./api.js";
import { shortcuts, useShortcuts } from "./keyboard.js";
import { useStore } from "./store.js";
import { signIn, target } from "./target.js";

/** @param {{dialog: Ref<HTMLDialogElement>, title: string, children?: Content}} props */
function Dialog({ dialog, title, children }) {
  const close = () => dialog.current?.close();
  const onClick = (/** @type {MouseEvent} */ event) => event.target === dialog.current && close();
  return html`<dialog ref=${dialog} aria-label=${title} onClick=${onClick}>
    <header class="panel-head">
      <h2>${title}</h2>
      <button type="button" class="icon" aria-label="Close" title="Close (Esc)" onClick=${close}>✕</button>
    </header>
    ${children}
  </dialog>`;
}

/** @type {Record<string, string>} */
const SHOWN_KEYS = { Escape: "Esc", " ": "Space" };

export function HelpButton() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const known = useStore(shortcuts);
  const open = () => !dialog.current?.open && dialog.current?.showModal();
  useShortcuts([["?", "This help", open]], []);
  return html`<button type="button" class="icon" onClick=${open} aria-label="Help" title="Shortcuts (?)">?</button>
    <${Dialog} dialog=${dialog} title="Keyboard">
      <table class="table compact keys">
        <tbody>
          ${[...known].map(([key, { text }]) => text && html`<tr><td><kbd>${SHOWN_KEYS[key] ?? key}</kbd></td><td>${text}</td></tr>`)}
          <tr><td><kbd>↑</kbd> <kbd>↓</kbd> <kbd>j</kbd> <kbd>k</kbd></td><td>Select the next or previous row, or a node of the map</td></tr>
          <tr><td><kbd>Home</kbd> <kbd>End</kbd></td><td>Select the first or last row</td></tr>
          <tr><td><kbd>Enter</kbd></td><td>Open the selected row or node</td></tr>
        </tbody>
      </table>
    <//>`;
}

const SPANS = [["5m", "5 minutes"], ["15m", "15 minutes"], ["1h", "hour"], ["24h", "24 hours"]];

export function RecordingButton() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [state, setState] = useState({ busy: "", problem: "" });
  const open = () => {
    setState({ busy: "", problem: "" });
    dialog.current?.showModal();
  };
  const download = async (/** @type {string} */ last) => {
    setState({ busy: last, problem: "" });
    try {
      const response = await answer("get", "/recording", { last }, { timeout: 120_000 });
      save(await response.blob(), `incident-${last}.rec`);
      dialog.current?.close();
    } catch (error) {
      setState({ busy: "", problem: error instanceof Error ? error.message : String(error) });
    }
  };
  return html`<button type="button" onClick=${open} aria-label="Download recording" title="Download recent events and decisions">
      ⤓<span class="wide"> Download recording</span>
    </button>
    <${Dialog} dialog=${dialog} title="Download the recording">
      <p>
        The events and decisions of the scheduler. <code>kubectl preemptive replay FILE</code> repeats
        every decision, and shows why a pod was pending at any moment.
      </p>
      <div class="buttons" role="group" aria-label="The last">
        <span>The last</span>
        ${SPANS.map(
          ([last, text]) =>
            html`<button type="button" disabled=${Boolean(state.busy)} onClick=${() => download(last)}>
              ${state.busy === last ? "Loading …" : text}
            </button>`,
        )}
      </div>
      ${state.problem && html`<p class="failure" role="alert">${state.problem}</p>`}
    <//>`;
}

/** Only for users who have entered a token: the command ends by itself, and a proxy has its own. */
export function SignOutButton() {
  const [problem, setProblem] = useState("");
  if (target.session !== "token") return null;
  const signOut = async () => {
    try {
      const response = await fetch("/sign-out", { method: "POST" });
      if (!response.ok) throw new Error(`${response.status}`);
      sessionStorage.clear();
      history.replaceState(null, "", "/");
      signIn();
    } catch {
      setProblem("Not signed out: the server does not answer");
    }
  };
  return html`<button type="button" onClick=${signOut} title=${problem || "Forget the token"}>${problem || "Sign out"}</button>`;
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
