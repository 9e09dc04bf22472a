import { mount } from '../shared/api/http';
import { compareCommand, queryCommand, quoted, showCommand } from '../shared/asking/commands';
import { filtersOf } from '../shared/asking/filters';
import { foldersOf, toPage, trail, type Crumb } from '../shared/address/model/trail';
import type { View } from '../shared/address/model/view';
import { addressOf, follow, go, view } from '../shared/address/address';
import { detail } from '../calls/calls';
import { openExports } from '../exports/exports';
import { offered } from './offered';
import { copy, say } from '../shared/session/page';
import { programs, run } from '../shared/session/session';
import { Menu } from '../shared/parts/menu';
import { siblingsOf } from './siblings';

const WALL = { page: 'wall' } as const;

/** The trail to what is shown, the filters that are set, the menu of pages, and what can be copied. */
export function Crumbs() {
  return (
    <nav class="crumbs" aria-label="Where">
      <ol class="trail">
        {mount !== '' && (
          <li>
            <a href={new URL('runs', document.baseURI).href} title="All runs of the folder">
              Runs
            </a>
          </li>
        )}
        {here().map((crumb, at, all) => (
          <Step key={at} crumb={crumb} isLast={at === all.length - 1} />
        ))}
      </ol>
      <span class="chips">
        {filters().map((filter) => (
          <Chip key={filter.text(view.value, programs.value)} text={filter.text(view.value, programs.value)} drop={filter.dropped} />
        ))}
      </span>
      <div class="elsewhere">
        <ul class="pages">
          {offered.value.map(([page, name, question]) => (
            <li key={page}>
              <a
                href={addressOf(toPage(page))}
                onClick={(event) => follow(event, toPage(page))}
                aria-current={view.value.page === page ? 'page' : undefined}
                title={question}
              >
                {name}
              </a>
            </li>
          ))}
        </ul>
        {view.value.page === 'overview' && (
          <a class="quiet in-wide" href={addressOf(WALL)} onClick={(event) => follow(event, WALL)} title="The headline, readable from across a room (B)">
            Wall
          </a>
        )}
        <button class="quiet" onClick={openExports} title="Export recorded calls to a file for other tools">
          Export
        </button>
        <Menu
          label="Copy link, command or view"
          text="Copy ▾"
          items={() => [
            { text: 'Link', title: 'Address of this view (C)', act: copyLink },
            { text: 'Command', title: 'The same question in the terminal (Shift+C)', act: copyCommand },
            { text: 'Command that opens this view', title: 'For colleagues who reach the run in another way', act: copyView },
          ]}
        />
      </div>
    </nav>
  );
}

/** Filters that can be dropped: those that name the subject of the page cannot. */
function filters(): ReturnType<typeof filtersOf> {
  const { page } = view.value;
  const subject = { function: { function: '' }, incident: { incident: null }, node: { node: '' } };
  return filtersOf({ ...view.value, ...(page === 'function' || page === 'incident' || page === 'node' ? subject[page] : {}) });
}

/** Trail of the current view. */
export function here(): Crumb[] {
  return trail(view.value, run.value.value?.programs ?? {}, detail.value.value?.record ?? null);
}

function Step({ crumb, isLast }: { crumb: Crumb; isLast: boolean }) {
  const siblings = crumb.kind === 'page' ? null : <Menu label={`Instead of ${crumb.text}`} text="▾" items={() => siblingsOf(crumb.kind)} />;
  return (
    <li>
      {isLast ? (
        <span aria-current="location">{crumb.text}</span>
      ) : (
        <a href={addressOf(crumb.change)} onClick={(event) => follow(event, crumb.change)}>
          {crumb.text}
        </a>
      )}
      {siblings}
    </li>
  );
}

function Chip({ text, drop }: { text: string; drop: Partial<View> }) {
  return (
    <button class="chip" onClick={() => go({ ...drop, cursor: null })} aria-label={`Drop filter ${text}`} title="Drop this filter">
      {text} <span aria-hidden="true">×</span>
    </button>
  );
}

/** Shown while the run's folder is not known, without which a command would be wrong. */
const NOT_KNOWN_YET = 'The run is still being read: try again in a moment.';

export const copyLink = (): void => void copy(location.href);

/** Copy the command that shows the content of the page in the terminal. */
export function copyCommand(): void {
  const directory = run.value.value?.directory;
  if (directory === undefined) return say(NOT_KNOWN_YET);
  const { page, call, incident, compare, also } = view.value;
  if (page === 'compare' && compare !== '') return void copy(compareCommand(directory, foldersOf(compare), foldersOf(also)));
  if (page === 'incident' && incident !== null) return void copy(showCommand(directory, incident));
  void copy(page === 'call' && call !== null ? showCommand(directory, call) : queryCommand(directory, view.value));
}

function copyView(): void {
  const directory = run.value.value?.directory;
  if (directory === undefined) return say(NOT_KNOWN_YET);
  void copy(`chimbuko view ${quoted(directory)} --open ${quoted('/' + addressOf({}).replace(/^.*?(?=r\/)/, ''))}`);
}
