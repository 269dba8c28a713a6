/** From YAML to a what-if request. */
import { YAML11_SCHEMA, YAMLException, loadAll } from "../vendor/js-yaml.js";

/** A text that cannot be a request; the message says where it is wrong. */
export class TextError extends Error {}

/**
 * Return the Kubernetes objects of a text with one or more YAML (or JSON) documents.
 *
 * `List` objects are taken apart. YAML 1.1 is read, as kubectl does.
 *
 * @param {string} text
 * @returns {Record<string, unknown>[]}
 */
export function objectsOf(text) {
  /** @type {Record<string, unknown>[]} */
  const objects = [];
  let documents;
  try {
    documents = loadAll(text, { schema: YAML11_SCHEMA });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const { mark, reason } = error;
    const place = mark ? `Line ${mark.line + 1}, column ${mark.column + 1}: ` : "";
    throw new TextError(place + (reason || error.message));
  }
  documents.forEach((document, index) => {
    if (document === null || document === undefined) return;
    const what = `Document ${index + 1}`;
    if (typeof document !== "object" || Array.isArray(document)) throw new TextError(`${what} is not an object.`);
    const object = /** @type {Record<string, unknown>} */ (document);
    if (!object.kind) throw new TextError(`${what} has no kind.`);
    if (object.kind !== "List") objects.push(object);
    else if (Array.isArray(object.items ?? [])) objects.push(.../** @type {any[]} */ (object.items ?? []));
    else throw new TextError(`${what} is a List whose items are not a list.`);
  });
  return objects;
}

/**
 * Return the names in a list that is separated by commas or white space.
 *
 * @param {string} text
 */
export function namesOf(text) {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/**
 * Return the body of `POST /api/v1/plan`.
 *
 * @param {{text: string, drain: string, namespace: string, settle: boolean}} form
 * @returns {Api.WhatIfRequest}
 */
export function whatIfRequest({ text, drain, namespace, settle }) {
  const objects = objectsOf(text);
  const nodes = namesOf(drain);
  if (objects.length === 0 && nodes.length === 0) {
    throw new TextError("There is nothing to plan: paste objects, or name nodes to drain.");
  }
  return { objects, drain: nodes, namespace: namespace.trim() || "default", settle };
}
