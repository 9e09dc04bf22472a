/** What the browser keeps for a user; nothing where it may keep nothing, as in the frame of a mail. */

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
    // It holds as long as the page does.
  }
}
