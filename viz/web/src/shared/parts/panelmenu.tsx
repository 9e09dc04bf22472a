import { render, type ComponentChildren, type RefObject } from 'preact';
import { statementCommand } from '../asking/statements';
import { filtersOf } from '../asking/filters';
import { csvOf, fileName, svgFile } from '../charts/model/export';
import { sinceStart, wallClock } from '../units/units';
import { addressOfApi } from '../api/http';
import type { Request } from '../api/request';
import { view } from '../address/address';
import { copy, say } from '../session/page';
import { programs, run, status } from '../session/session';
import { Menu, type MenuItem } from './menu';
import { drawingOf, finely, pngOf, save } from '../charts/picture';

/** Requests for the content of a panel, for other tools. */
export interface Asks {
  /** Request to the API, made by `shared/api`. */
  json?: Request;
  /** Whether the server can write the request as SQL. */
  hasSql?: boolean;
  /** Command for the terminal, made by `shared/asking/commands` with the run's folder. */
  command?: (directory: string) => string;
}

interface Props {
  name: string;
  title: string;
  asks: Asks | undefined;
  /** Element that is drawn in pictures. */
  body: RefObject<HTMLElement | null>;
  table: (() => ComponentChildren) | undefined;
}

const PNG_SCALE = 2;

/** Menu ⋯ of a panel, which copies its content for other tools and saves it as a file. */
export function PanelMenu({ name, title, asks, body, table }: Props) {
  const file = (ending: string): string => fileName([view.value.run, name], ending);
  const picture = async (blobOf: (svg: string) => Blob | Promise<Blob>, name: string): Promise<void> => {
    try {
      if (body.current) save(await blobOf(await finely(body.current, (element) => svgOf(title, element))), name);
    } catch (error) {
      say(`The picture could not be made: ${String(error)}`);
    }
  };
  const items = (): MenuItem[] => {
    const { json, hasSql = false, command } = asks ?? {};
    const found: (MenuItem | false)[] = [
      { text: 'Copy link', title: 'Address of this view', act: () => void copy(location.href) },
      json !== undefined && { text: 'Copy JSON address', title: 'Address of these data in the API', act: () => void copy(addressOfApi(...json).href) },
      json !== undefined &&
        hasSql && {
          text: 'Copy SQL',
          title: 'Command for the terminal that queries the database',
          act: () => copyOfRun((directory) => statementCommand(directory, json)),
        },
      command !== undefined && { text: 'Copy command', title: 'Command that shows the same in the terminal', act: () => copyOfRun(command) },
      { text: 'Save PNG', title: 'Picture at twice the resolution', act: () => void picture((svg) => pngOf(svg, PNG_SCALE), file('png')) },
      { text: 'Save SVG', title: 'Picture that can be edited', act: () => void picture((svg) => new Blob([svg], { type: 'image/svg+xml' }), file('svg')) },
      { text: 'Save CSV', title: 'The table behind the picture', act: () => saveTable(name, table, file('csv')) },
    ];
    return found.filter((item) => item !== false);
  };
  return <Menu label={`${title}: copy and save`} text="⋯" items={items} />;
}

/** Copy a command, which needs the run's folder. */
function copyOfRun(command: (directory: string) => string | Promise<string>): void {
  const directory = run.value.value?.directory;
  if (directory === undefined) say('The run is still being read: try again in a moment.');
  else void copy(command(directory));
}

function svgOf(title: string, body: HTMLElement): string {
  const style = getComputedStyle(document.documentElement);
  const colours = { ground: style.getPropertyValue('--surface'), text: style.getPropertyValue('--text') };
  return svgFile(title, [placeAndFilters(), time()], drawingOf(body), colours);
}

/** Most characters of a filter in a picture: names of functions have thousands. */
const MOST_FILTER = 120;

/** Run, call and filters of the view. */
function placeAndFilters(): string {
  const { run: name, page, call } = view.value;
  const filters = filtersOf(view.value).map((filter) => filter.text(view.value, programs.value).slice(0, MOST_FILTER));
  return [`run ${name}`, ...(page === 'call' ? [`call ${call}`] : []), ...filters].join(' · ');
}

function time(): string {
  const shown = status.value;
  return `${shown === null ? '' : `as of ${sinceStart(shown.clock_us)} · `}${wallClock(Date.now() * 1000)}`;
}

/** Save the panel's table as a file. */
function saveTable(name: string, table: Props['table'], file: string): void {
  const apart = document.createElement('div');
  if (table !== undefined) render(<>{table()}</>, apart);
  const found = (table === undefined ? document.querySelector(`[data-panel="${name}"]`) : apart)?.querySelector('table');
  const rows = [...(found?.rows ?? [])].map((row) => [...row.cells].map((cell) => cell.textContent.replace(/\s+/g, ' ').trim()));
  render(null, apart);
  if (rows.length < 2) return say('There is nothing in this table yet.');
  save(new Blob([csvOf(rows)], { type: 'text/csv' }), file);
}
