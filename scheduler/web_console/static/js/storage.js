/**
 * Choices of the user that the browser remembers; where it may not, they last until a reload.
 *
 * @param {string} key
 */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The choice still applies to the page as it is.
  }
}
