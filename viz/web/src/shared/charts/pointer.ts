/** Position of the pointer in an element, in the element's CSS pixels, which differ from the window's on a zoomed page. */
export function positionIn(event: MouseEvent): { x: number; y: number } {
  const element = event.currentTarget as HTMLElement;
  const box = element.getBoundingClientRect();
  const scale = box.width > 0 ? element.offsetWidth / box.width : 1;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}

/** Convert a position in an element to one in the window. */
export function onPage(element: HTMLElement, x: number, y: number): { x: number; y: number } {
  const box = element.getBoundingClientRect();
  const scale = element.offsetWidth > 0 ? box.width / element.offsetWidth : 1;
  return { x: box.left + x * scale, y: box.top + y * scale };
}
