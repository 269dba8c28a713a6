/**
 * The framework in one place: `html` makes elements from templates without a build step.
 *
 * Values in templates become text nodes or attributes and are never parsed as HTML, so names,
 * labels and messages of the cluster, which tenants write, cannot become elements or scripts.
 */
import { Fragment, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Fragment, render };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/preact-hooks.js";
export const html = htm.bind(h);
