/** From YAML to a what-if request. */
import { YAML11_SCHEMA, YAMLException, loadAll } from "../vendor/js-yaml.js";

/** What is asked: objects as text, nodes to drain as a list of names. */
/** @typedef {{text: string, drain: string, namespace: string, settle: boolean}} Question */

/** A text that cannot be a request, and the line where it is wrong; 0 for none. */
export class TextError extends Error {
  /**
   * @param {string} message
   * @param {number} [line]
   */
  constructor(message, line = 0) {
    super(message);
    this.line = line;
  }
}

/**
 * Return the line on which each document of a text begins, counted from 1.
 *
 * @param {string} text
 */
export function documentLines(text) {
  const lines = text.split("\n");
  /** @type {number[]} */
  const found = [];
  lines.forEach((line, index) => {
    const begins = /^---(\s|$)/.test(line);
    if (begins || (found.length === 0 && !isEmpty(line))) found.push(index);
  });
  return found.map((index) => {
    let first = index;
    while (first + 1 < lines.length && (isEmpty(lines[first]) || /^---\s*$/.test(lines[first]))) first += 1;
    return first + 1;
  });
}

/** @param {string} line */
const isEmpty = (line) => /^\s*(#|$)/.test(line);

/**
 * Return the line that a message of the scheduler is about, by `objects[2]` in it; 0 for none.
 *
 * @param {string} text
 * @param {string} message
 */
export function lineOf(text, message) {
  const index = /\bobjects\[(\d+)\]/.exec(message)?.[1];
  if (index === undefined) return 0;
  const lines = documentLines(text);
  // Each object knows the document that it is from: documents may be empty, or lists.
  const documents = loaded(text).map((document, number) => ({ number, objects: listed(document) }));
  const owners = documents.flatMap(({ number, objects }) => objects.map(() => number));
  return lines[owners[Number(index)] ?? -1] ?? 0;
}

/**
 * Return the Kubernetes objects of a text with one or more YAML (or JSON) documents.
 *
 * `List` objects are taken apart. YAML 1.1 is read, as kubectl does.
 *
 * @param {string} text
 * @returns {Record<string, unknown>[]}
 */
export function objectsOf(text) {
  const lines = documentLines(text);
  return loaded(text).flatMap((document, index) => {
    const wrong = (/** @type {string} */ problem) => new TextError(`document ${index + 1} ${problem}`, lines[index]);
    if (document === null || document === undefined) return [];
    if (typeof document !== "object" || Array.isArray(document)) throw wrong("is not an object.");
    if (!document.kind) throw wrong("has no kind.");
    if (document.kind === "List" && !Array.isArray(document.items ?? [])) throw wrong("is a List whose items are not a list.");
    return listed(document);
  });
}

/**
 * @param {string} text
 * @returns {any[]}
 */
function loaded(text) {
  try {
    return loadAll(text, { schema: YAML11_SCHEMA });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const { mark, reason } = error;
    const place = mark ? `column ${mark.column + 1}: ` : "";
    throw new TextError(place + (reason || error.message), mark ? mark.line + 1 : 0);
  }
}

/**
 * @param {any} document
 * @returns {any[]}
 */
function listed(document) {
  if (document === null || document === undefined) return [];
  return document.kind === "List" ? (document.items ?? []) : [document];
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
 * @param {Question} form
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
