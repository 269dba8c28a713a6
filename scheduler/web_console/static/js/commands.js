/** Commands for a shell, about the cluster that the page shows. */
import { namesOf } from "./what_if_request.js";

/**
 * Return the command that asks the same in a shell.
 *
 * @param {import("./what_if_request.js").Question} form
 * @param {string} cluster a context, or the address of a scheduler; empty for the usual one
 */
export function planCommand({ text, drain, namespace, settle }, cluster) {
  const words = [
    "kubectl preemptive plan",
    ...(isAddress(cluster) ? ["--server", quoted(cluster)] : context(cluster)),
    ...(namespace.trim() ? ["-n", quoted(namespace.trim())] : []),
    ...namesOf(drain).flatMap((node) => ["--drain", quoted(node)]),
    ...(settle ? [] : ["--no-settle"]),
  ];
  if (!text.trim()) return words.join(" ");
  const lines = text.split("\n");
  let end = "EOF";
  while (lines.includes(end)) end += "_";
  return `${words.join(" ")} -f - <<'${end}'\n${text.replace(/\n?$/, "\n")}${end}`;
}

/** @param {string} word */
const quoted = (word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/**
 * Return the command that puts the generation of a policy before the newest in force.
 *
 * @param {string} policy
 * @param {string} cluster as of `planCommand`
 */
export function undoCommand(policy, cluster) {
  const at = context(cluster);
  const undo = ["kubectl preemptive policies undo", quoted(policy), ...at];
  return `${undo.join(" ")} | ${["kubectl replace", ...at, "-f -"].join(" ")}`;
}

/** @param {string} cluster */
const isAddress = (cluster) => /^https?:/.test(cluster);

/** @param {string} cluster */
const context = (cluster) => (cluster && !isAddress(cluster) ? ["--context", quoted(cluster)] : []);
