/** Files that the page saves: tables as CSV, pictures as SVG. */

/** CSV file of rows of cells, the first row being the headings. */
export function csvOf(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => row.map((cell) => csvCell(plainNumber(cell))).join(',')).join('\r\n') + '\r\n';
}

function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Convert a number to the form that spreadsheets read, without commas and with a hyphen as minus; other texts remain. */
function plainNumber(text: string): string {
  return /^[−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?$/.test(text) ? text.replaceAll(',', '').replace('−', '-') : text;
}

/** Name of a file, made of letters, digits, dots and dashes. */
export function fileName(words: readonly string[], ending: string): string {
  const name = words.map((word) => word.replace(/[^\w.]+/g, '-').replace(/^-+|-+$/g, '')).filter((word) => word !== '');
  return `${name.join('-').slice(0, 120)}.${ending}`;
}

export interface Drawing {
  width: number;
  height: number;
  /** SVG elements inside a `viewBox` that begins at 0, 0. */
  body: string;
}

const TITLE_PX = 24;
const LINE_PX = 18;
const MARGIN_PX = 12;

/** SVG file with a title and lines of text above a drawing. */
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

/** Escape a text for an element or attribute; characters that XML does not allow are left out. */
export function escaped(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '').replace(/[&<>"]/g, (character) => ENTITIES[character] as string);
}

/** SVG element with its attributes and content. */
export function tag(name: string, attributes: Readonly<Record<string, string | number | undefined>>, inside = ''): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== '');
  const text = given.map(([key, value]) => ` ${key}="${escaped(typeof value === 'number' ? String(Math.round(value * 100) / 100) : String(value))}"`).join('');
  return inside === '' ? `<${name}${text}/>` : `<${name}${text}>${inside}</${name}>`;
}
