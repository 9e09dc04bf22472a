/** Where the pointer is over an element, in its own CSS pixels: a page that is zoomed by style measures in others. */
export function placeIn(event: MouseEvent): { x: number; y: number } {
  const element = event.currentTarget as HTMLElement;
  const box = element.getBoundingClientRect();
  const scale = box.width > 0 ? element.offsetWidth / box.width : 1;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}

/** A place in an element as the window measures it. */
export function onPage(element: HTMLElement, x: number, y: number): { x: number; y: number } {
  const box = element.getBoundingClientRect();
  const scale = element.offsetWidth > 0 ? box.width / element.offsetWidth : 1;
  return { x: box.left + x * scale, y: box.top + y * scale };
}
