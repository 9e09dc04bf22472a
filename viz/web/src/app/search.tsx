import { signal } from '@preact/signals';
import { useId, useMemo, useRef, useState } from 'preact/hooks';
import { search, type Found } from './model/search';
import { go } from '../shared/address/address';
import * as api from '../shared/api/requests';
import { functionsCommand } from '../shared/asking/commands';
import { copy } from '../shared/session/page';
import { run } from '../shared/session/session';
import { question } from '../shared/session/question';
import { offered } from './offered';

export function focusSearch(): void {
  document.querySelector<HTMLInputElement>('.search input')?.select();
}

const searching = signal(false);
/** Functions of the run, requested at the first search. */
const searchable = question(() => (searching.value ? 'functions' : null), api.getAllFunctions);

/** Search for pages, ranks, steps, calls and functions; the key `/` focuses it from everywhere. */
export function Search() {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const functions = searchable.value.value?.functions ?? [];
  const found = useMemo(() => search(text, functions, offered.value), [text, functions, offered.value]);
  const chosen = Math.min(at, found.length - 1);
  const isOpen = searching.value;
  const directory = run.value.value?.directory;
  const lists = directory === undefined ? null : functionsCommand(directory);
  const close = (): void => {
    searching.value = false;
    setAt(0);
  };
  const take = (one: Found | undefined): void => {
    if (one === undefined) return;
    setText('');
    close();
    input.current?.blur();
    go(one.change);
  };
  const move = (event: KeyboardEvent): void => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way !== undefined) {
      searching.value = true;
      setAt((chosen + way + found.length) % Math.max(1, found.length));
    } else if (event.key === 'Enter' && found.length === 0 && lists !== null) void copy(lists);
    else if (event.key === 'Enter') take(found[chosen]);
    else if (event.key === 'Escape' && isOpen) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="search">
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && found.length > 0 ? `${id}-${chosen}` : undefined}
        placeholder="/ find"
        title="Function, rank 0:3, step 86, call 0:3:86:225, or page (/)"
        spellcheck={false}
        data-search
        value={text}
        onFocus={() => (searching.value = true)}
        onBlur={close}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          searching.value = true;
        }}
        onKeyDown={move}
      />
      <ul id={`${id}-list`} class="found" role="listbox" aria-label="Found" hidden={!isOpen}>
        {isOpen &&
          found.map((one, place) => (
            <li
              key={`${one.kind} ${one.text} ${one.detail}`}
              id={`${id}-${place}`}
              role="option"
              aria-selected={place === chosen}
              onPointerDown={(event) => {
                // Before the field loses the focus, which closes the list.
                event.preventDefault();
                take(one);
              }}
            >
              <span class="found-kind">{one.kind}</span>
              <span class="found-text">{one.text}</span>
              <span class="found-detail">{one.detail}</span>
            </li>
          ))}
        {isOpen && found.length === 0 && (
          <li class="found-none" role="option" aria-selected={false} aria-disabled="true">
            {searchable.busy.value ? 'Reading functions…' : 'Nothing found. Try part of a function’s name, 0:3, step 86, or the name of a page.'}
            {lists !== null && (
              <>
                {' '}
                Enter copies the command that lists all functions: <code>{lists}</code>
              </>
            )}
          </li>
        )}
      </ul>
    </div>
  );
}
