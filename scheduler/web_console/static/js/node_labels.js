/** The label by which nodes are grouped. */
import { get } from "./api.js";
import { useFetched } from "./fetched.js";

/** Labels to group by, if none was chosen, in order of preference. */
const USUAL = ["topology.kubernetes.io/zone"];
/** In the address, where nodes shall not be grouped. */
export const NO_LABEL = "none";

/** Return the label keys of nodes. */
export function useLabels() {
  return useFetched("labels", (signal) => get("/labels", {}, { signal }), null);
}

/**
 * Return the label to group by, "" for none, undefined while that is not known.
 *
 * @param {string | null} asked
 * @param {import("./fetched.js").Shown<Api.LabelsDocument>} labels
 */
export function chosenLabel(asked, labels) {
  if (asked === NO_LABEL) return "";
  if (asked) return asked;
  if (!labels.data) return labels.error ? "" : undefined;
  return USUAL.find((key) => labels.data?.items?.some((item) => item.key === key)) ?? "";
}

/**
 * Return the choices for a select.
 *
 * @param {Api.LabelView[]} labels
 * @param {string} chosen
 * @returns {import("./parts.js").Options}
 */
export function labelOptions(labels, chosen) {
  /** @type {import("./parts.js").Options} */
  const keys = labels.map((item) => [item.key, `${item.key} (${item.values})`]);
  if (chosen && !labels.some((item) => item.key === chosen)) keys.push([chosen, chosen]);
  return [[NO_LABEL, "nothing"], ...keys];
}
