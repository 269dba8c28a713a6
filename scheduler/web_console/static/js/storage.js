/**
 * Choices of the user that the browser remembers, until the tab is closed or for longer; where it
 * may not, they last until a reload.
 *
 * @param {string} key
 * @param {boolean} [tab] only in this tab, until it is closed
 */
export function remembered(key, tab = false) {
  try {
    return (tab ? sessionStorage : localStorage).getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} value
 * @param {boolean} [tab]
 */
export function remember(key, value, tab = false) {
  try {
    (tab ? sessionStorage : localStorage).setItem(key, value);
  } catch {
    // The choice still applies to the page as it is.
  }
}
