/** The content of a panel as a drawing: shapes and text as such, canvases as images. */

import { escaped, tag, type Drawing } from './model/export';

/** Draw an element as it is on the page. */
export function drawingOf(element: HTMLElement): Drawing {
  const box = element.getBoundingClientRect();
  const inner = contents(element, box);
  return { width: box.width, height: box.height, body: clipped(box, box, inner) };
}

/** Most frames to wait until charts have measured and painted themselves again; under load it takes more than two or three. */
const MOST_FRAMES = 60;

/**
 * Draw an element while its canvases are painted at twice the resolution (`canvas` looks for `data-fine`).
 *
 * Canvases are painted when their size changes, so this changes it by a pixel.
 */
export async function finely<T>(element: HTMLElement, draw: (element: HTMLElement) => T): Promise<T> {
  element.dataset['fine'] = '';
  element.style.borderRight = '1px solid transparent';
  try {
    for (let frame = 0; frame < 2 || (frame < MOST_FRAMES && !isFine(element)); frame++) await new Promise((next) => requestAnimationFrame(next));
    return draw(element);
  } finally {
    delete element.dataset['fine'];
    element.style.borderRight = '';
  }
}

const isFine = (element: HTMLElement): boolean => [...element.querySelectorAll('canvas')].every((canvas) => canvas.width >= 2 * canvas.offsetWidth - 2);

/** Convert an SVG file to a PNG, with `scale` pixels for each of its own. */
export async function pngOf(svg: string, scale: number): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const png = await new Promise<Blob | null>((take) => canvas.toBlob(take, 'image/png'));
    if (png === null) throw new Error('the picture is too large for this browser');
    return png;
  } finally {
    URL.revokeObjectURL(address);
  }
}

export function save(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The download has begun by then; if this happened at once, some browsers would find nothing.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function contents(element: Element, origin: DOMRect): string {
  return [...element.childNodes].map((node) => (node instanceof Text ? textOf(node, origin) : node instanceof Element ? shapeOf(node, origin) : '')).join('');
}

function shapeOf(element: Element, origin: DOMRect): string {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (style.visibility === 'hidden' || style.opacity === '0' || style.clipPath !== 'none' || box.width === 0 || box.height === 0) return '';
  if (element instanceof HTMLCanvasElement) return imageOf(element, box, origin);
  if (element instanceof SVGSVGElement) return svgOf(element, box, origin);
  const inner = contents(element, origin);
  const body = style.overflowX === 'visible' ? inner : clipped(box, origin, inner);
  const drawn = boxOf(style, box, origin) + body;
  return style.opacity === '1' || drawn === '' ? drawn : tag('g', { opacity: style.opacity }, drawn);
}

function clipped(box: DOMRect, origin: DOMRect, inner: string): string {
  const [x, y] = [box.left - origin.left, box.top - origin.top];
  const view = [x, y, box.width, box.height].map((number) => number.toFixed(2)).join(' ');
  return inner === '' ? '' : tag('svg', { x, y, width: box.width, height: box.height, viewBox: view }, inner);
}

const SIDES = ['Top', 'Right', 'Bottom', 'Left'] as const;

/** Background and borders of a box. */
function boxOf(style: CSSStyleDeclaration, box: DOMRect, origin: DOMRect): string {
  const [x, y] = [box.left - origin.left, box.top - origin.top];
  const isFilled = !/^(?:transparent|rgba\(.*, 0\))$/.test(style.backgroundColor);
  const ground = isFilled
    ? tag('rect', { x, y, width: box.width, height: box.height, rx: parseFloat(style.borderRadius) || 0, fill: style.backgroundColor })
    : '';
  const [right, bottom] = [x + box.width, y + box.height];
  const lines = { Top: [x, y, right, y], Right: [right, y, right, bottom], Bottom: [x, bottom, right, bottom], Left: [x, y, x, bottom] };
  const borders = SIDES.map((side) => {
    const width = parseFloat(style[`border${side}Width`]);
    const stroke = style[`border${side}Color`];
    if (width === 0 || style[`border${side}Style`] === 'none' || /, 0\)$/.test(stroke)) return '';
    const [x1, y1, x2, y2] = lines[side] as [number, number, number, number];
    return tag('line', { x1, y1, x2, y2, stroke, 'stroke-width': width });
  });
  return ground + borders.join('');
}

function imageOf(canvas: HTMLCanvasElement, box: DOMRect, origin: DOMRect): string {
  return tag('image', { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height, href: canvas.toDataURL() });
}

const LOOKS = [
  'fill',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'stroke-linejoin',
  'opacity',
  'font-size',
  'font-weight',
  'font-family',
  'text-anchor',
  'dominant-baseline',
  'paint-order',
];

/** Copy of a chart that looks the same without the page's style sheets. */
function svgOf(chart: SVGSVGElement, box: DOMRect, origin: DOMRect): string {
  const copy = chart.cloneNode(true) as SVGSVGElement;
  const [originals, copies] = [chart.querySelectorAll('*'), copy.querySelectorAll('*')];
  originals.forEach((original, at) => {
    const style = getComputedStyle(original);
    for (const look of LOOKS) copies[at]?.setAttribute(look, style.getPropertyValue(look));
    copies[at]?.removeAttribute('class');
  });
  const place = { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
  for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value.toFixed(2));
  copy.setAttribute('color', getComputedStyle(chart).color);
  copy.removeAttribute('class');
  copy.removeAttribute('style');
  return new XMLSerializer().serializeToString(copy);
}

const measuring = document.createElement('canvas').getContext('2d');

/** Lines of a piece of text, each at its position. */
function textOf(node: Text, origin: DOMRect): string {
  const parent = node.parentElement;
  if (parent === null || node.data.trim() === '') return '';
  const style = getComputedStyle(parent);
  return linesOf(node)
    .map(({ text, box }) => {
      const look = { 'font-family': style.fontFamily, 'font-size': style.fontSize, 'font-weight': style.fontWeight, fill: style.color };
      return tag('text', { x: box.left - origin.left, y: box.top - origin.top + box.height * ascentOf(style.font), ...look }, escaped(text));
    })
    .join('');
}

/** Share of a line's height that is above its baseline. */
function ascentOf(font: string): number {
  if (measuring === null) return 0.8;
  measuring.font = font;
  const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = measuring.measureText('x');
  return above / (above + below);
}

function linesOf(node: Text): { text: string; box: DOMRect }[] {
  const lines: { text: string; box: DOMRect }[] = [];
  const range = document.createRange();
  for (const word of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getClientRects()[0];
    if (box === undefined) continue;
    const line = lines[lines.length - 1];
    if (line !== undefined && line.box.top === box.top) line.text += word[0].replace(/\s+/g, ' ');
    else lines.push({ text: word[0].replace(/\s+/g, ' '), box });
  }
  return lines;
}
