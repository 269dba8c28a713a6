/** Which cluster the page shows, and as whom, as the server of the page knows it. */

/**
 * `session` is how its user has entered: by the `key` of the command, by a `token` in the form, or
 * through a `proxy` that sends one.
 *
 * @type {{name: string, cluster: string, user: string, colour: string, session: string}}
 */
export const target = (() => {
  const meta = document.querySelector("meta[name=target]");
  const known = meta instanceof HTMLMetaElement && meta.content ? JSON.parse(meta.content) : {};
  return { name: "", cluster: "", user: "", colour: "", session: "key", ...known };
})();

/** Where the form is. The fragment says what is shown, so it is there again after signing in. */
export function signIn() {
  if (target.session === "token") location.replace(`/session${location.hash}`);
  else location.reload();
}
