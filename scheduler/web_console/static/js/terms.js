/** What our own words mean, in one sentence each. */

/** The phases of the queue. */
export const PHASES = ["unschedulable", "backoff", "active", "gated", "preempting", "binding"];

/** @type {Record<string, string>} */
const MEANINGS = {
  active: "It is tried as soon as its turn comes",
  backoff: "It was rejected, and is tried again after a short wait",
  unschedulable: "No node takes it now; it is tried again when something changes that may help",
  gated: "A scheduling gate, or a missing claim, keeps it from being tried",
  preempting: "It is nominated to a node, and waits until its victims have terminated",
  binding: "A node was chosen; the API server is told",
  nominating: "The preemptor is being nominated to the node; no pod was evicted yet",
  recording: "The plan is written, so that it survives a restart; no pod was evicted yet",
  evicting: "The API server is asked to delete the victims",
  awaiting: "The victims terminate; the preemptor waits for their space",
  deallocating: "The victims are gone, and their resource claims still have the devices that the preemptor needs",
  terminating: "It was evicted, and is given time to end",
  gone: "It has terminated",
  spared: "It was a planned victim, and was not evicted after all",
  bound: "The preemptor runs on the node where pods were evicted for it",
  elsewhere: "The preemptor was placed on another node, after pods were evicted for it here",
  failed: "The preemption could not be carried out",
  "given up": "The preemption was ended before it was carried out, as it would not have helped any more",
  wasted: "The preemptor did not use the space that the eviction freed",
  nominated: "It will be placed on this node when its victims have terminated",
  victim: "A pod that is evicted to make space for a pod of higher priority",
  preemptor: "The pod of higher priority for which others are evicted",
  "PDB violations": "Victims whose PodDisruptionBudget does not allow their eviction",
  cost: "Requests of the victims, multiplied by the time that they had run",
  candidate: "A node on which evicting pods would make space",
  foreign: "Another scheduler places it",
  left: "It is no longer in the queue, and on no node",
  NotPlanned: "It belongs to another scheduler, so it is not planned",
};

/**
 * Return what a word means; nothing if it needs no explanation.
 *
 * @param {string} word
 * @returns {string | undefined}
 */
export const meaningOf = (word) => MEANINGS[word];
