/** Settings that the browser keeps; nothing where storage is not allowed, as in the frame of a mail. */

export function readKept(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The setting then lasts as long as the page.
  }
}
