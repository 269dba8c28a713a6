/** Which cluster the page shows, and as whom, as the server of the page knows it. */

/** @type {{name: string, cluster: string, user: string, colour: string}} */
export const target = (() => {
  const meta = document.querySelector("meta[name=target]");
  const known = meta instanceof HTMLMetaElement && meta.content ? JSON.parse(meta.content) : {};
  return { name: "", cluster: "", user: "", colour: "", ...known };
})();
