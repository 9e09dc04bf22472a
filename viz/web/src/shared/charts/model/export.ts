/** What leaves the page as a file: tables as CSV, pictures as SVG. */

/** Rows of cells, the first one being the headings, as a spreadsheet takes them. */
export function csvOf(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => row.map((cell) => csvCell(plainNumber(cell))).join(',')).join('\r\n') + '\r\n';
}

function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A number as spreadsheets read it, without commas, and with a hyphen for its minus; any other text as it is. */
function plainNumber(text: string): string {
  return /^[−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?$/.test(text) ? text.replaceAll(',', '').replace('−', '-') : text;
}

/** Name of a file: letters, digits, dots and dashes of what it is about. */
export function fileName(words: readonly string[], ending: string): string {
  const name = words.map((word) => word.replace(/[^\w.]+/g, '-').replace(/^-+|-+$/g, '')).filter((word) => word !== '');
  return `${name.join('-').slice(0, 120)}.${ending}`;
}

export interface Drawing {
  width: number;
  height: number;
  /** Elements inside a `viewBox` from 0, 0. */
  body: string;
}

const TITLE_PX = 24;
const LINE_PX = 18;
const MARGIN_PX = 12;

/** An SVG file: a title and lines of text above a drawing. */
export function svgFile(title: string, lines: readonly string[], drawing: Drawing, colours: { ground: string; text: string }): string {
  const top = MARGIN_PX + TITLE_PX + lines.length * LINE_PX;
  const [width, height] = [Math.ceil(drawing.width) + 2 * MARGIN_PX, Math.ceil(top + drawing.height) + MARGIN_PX];
  const words = [
    `<text x="${MARGIN_PX}" y="${MARGIN_PX + 14}" font-size="15" font-weight="600">${escaped(title)}</text>`,
    ...lines.map((line, at) => `<text x="${MARGIN_PX}" y="${MARGIN_PX + TITLE_PX + 10 + at * LINE_PX}" font-size="12">${escaped(line)}</text>`),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<rect width="100%" height="100%" fill="${colours.ground}"/>`,
    `<g font-family="system-ui, sans-serif" fill="${colours.text}">${words.join('')}</g>`,
    `<g transform="translate(${MARGIN_PX} ${top})">${drawing.body}</g>`,
    '</svg>',
  ].join('');
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Text inside an element or attribute; characters that XML does not have are left out. */
export function escaped(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '').replace(/[&<>"]/g, (character) => ENTITIES[character] as string);
}

/** `<name attribute="value"/>`, or around what it holds. */
export function tag(name: string, attributes: Readonly<Record<string, string | number | undefined>>, inside = ''): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== '');
  const text = given.map(([key, value]) => ` ${key}="${escaped(typeof value === 'number' ? String(Math.round(value * 100) / 100) : String(value))}"`).join('');
  return inside === '' ? `<${name}${text}/>` : `<${name}${text}>${inside}</${name}>`;
}
