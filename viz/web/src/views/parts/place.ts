/** Places in elements and in the window: they differ by the size at which the page is shown. */

import { pageZoom } from '../../state/theme';

export interface Place {
  x: number;
  y: number;
}

/** Where in an element the pointer is, in the lengths of its own styles. */
export function pointIn(element: Element, event: MouseEvent): Place {
  const box = element.getBoundingClientRect();
  return { x: (event.clientX - box.left) / pageZoom.value, y: (event.clientY - box.top) / pageZoom.value };
}

/** Where in the window a place of an element is. */
export function placeOf(element: Element, { x, y }: Place): Place {
  const box = element.getBoundingClientRect();
  return { x: box.left + x * pageZoom.value, y: box.top + y * pageZoom.value };
}
