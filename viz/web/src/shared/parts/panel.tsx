import type { ComponentChildren, HTMLAttributes, RefObject } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { go, view } from '../address/address';
import { copy } from '../session/page';
import { run } from '../session/session';
import { PanelMenu, type Asks } from './panelmenu';

interface PanelProps {
  name: string;
  title: string;
  /** One sentence for screen readers. */
  summary: string;
  actions?: ComponentChildren;
  /** Handlers that hold the order of the panel's list. */
  hold?: HTMLAttributes<HTMLElement>;
  /** The content as a table; missing where the panel is a table. */
  table?: (() => ComponentChildren) | undefined;
  /** Requests for the panel's content, for other tools. */
  asks?: Asks | undefined;
  children: ComponentChildren;
}

/**
 * Panel of a page with a title; the key T replaces its picture by a table.
 *
 * Its menu ⋯ copies the link and saves PNG, SVG and CSV. `asks` says what else it copies:
 * `asks={{ json: api.callsRequest(view.value), hasSql: true, command: (directory) => queryCommand(directory, view.value) }}`.
 * For a picture, canvases of `charts/canvas` are painted at twice the resolution for a moment.
 */
export function Panel({ name, title, summary, actions, hold, table, asks, children }: PanelProps) {
  const id = useId();
  const body = useRef<HTMLDivElement>(null);
  const needsFocus = useNeedsFocus(body);
  const asTable = table !== undefined && view.value.tables.includes(name);
  return (
    <figure class={`panel ${name}`} aria-labelledby={id} data-panel={name} data-twin={table ? 'yes' : undefined} {...hold}>
      <figcaption>
        <h2 id={id}>{title}</h2>
        <span class="hidden">{summary}</span>
        {actions}
        <span class="tools">
          {table && (
            <button
              class="quiet"
              aria-label={`${title}: ${asTable ? 'picture' : 'table'}`}
              onClick={() => toggleTables([name])}
              title={`${asTable ? 'Picture instead of table' : 'Table instead of picture'} (T)`}
            >
              {asTable ? 'Picture' : 'Table'}
            </button>
          )}
          <PanelMenu name={name} title={title} asks={asks} table={table} body={body} />
        </span>
      </figcaption>
      <div ref={body} class="panel-body" tabIndex={needsFocus ? 0 : undefined}>
        {asTable ? table() : children}
      </div>
    </figure>
  );
}

const FOCUSABLE = 'a[href], button, input, select, [tabindex="0"]';

/** Whether a box scrolls but contains nothing that takes the focus: then it has to take the focus itself, so that keys can scroll it. */
function useNeedsFocus(body: RefObject<HTMLElement | null>): boolean {
  const [needs, setNeeds] = useState(false);
  useEffect(() => {
    const box = body.current;
    if (!box) return;
    // An observer reports after the layout; reading the sizes at any other time would force one.
    const observer = new ResizeObserver(() => {
      const isCutOff = box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth;
      setNeeds(isCutOff && box.querySelector(FOCUSABLE) === null);
    });
    for (const one of [box, ...box.children]) observer.observe(one);
    return () => observer.disconnect();
  });
  return needs;
}

/** Switch panels between picture and table. */
export function toggleTables(names: readonly string[]): void {
  const shown = view.value.tables;
  const all = names.every((name) => shown.includes(name));
  const rest = shown.filter((name) => !names.includes(name));
  go({ tables: all ? rest : [...rest, ...names] }, 'replace');
}

/**
 * Text of a panel that has nothing to show: why, and what to do.
 *
 * @param command makes the command for the terminal that shows what there is.
 */
export function Empty({ children, command }: { children: ComponentChildren; command?: (directory: string) => string }) {
  const directory = run.value.value?.directory;
  const text = directory === undefined ? undefined : command?.(directory);
  return (
    <p class="empty">
      {children}
      {text !== undefined && (
        <button class="quiet command" title="Copy this command for the terminal" onClick={() => void copy(text)}>
          <code>{text}</code>
        </button>
      )}
    </p>
  );
}

/**
 * Text while a request takes long; it appears after a moment.
 *
 * @param rows lines of the table that will stand here, for which room is kept.
 */
export function Reading({ what, rows = 0 }: { what: string; rows?: number }) {
  return (
    <p class="empty reading" style={{ '--rows': rows }}>
      Reading {what}…
    </p>
  );
}

/** State of a list whose order is held: whether a newer one waits, and how to show it. */
export interface Held {
  waits: boolean;
  update: () => void;
}

/** Button that shows the newer order of a list that was held; narrow panels show only its last word. */
export function NewOrder({ held: { waits, update } }: { held: Held }) {
  if (!waits) return null;
  return (
    <button class="quiet" aria-label="order changed · update" onClick={update}>
      <span class="in-wide">order changed · </span>update
    </button>
  );
}

/**
 * Hold a list while the pointer is over it or the focus is in it.
 *
 * Return the value to show, whether a newer one waits, a function that shows it, and the handlers of the list.
 */
export function useHeld<T>(value: T, keyOf: (value: T) => string) {
  const [held, setHeld] = useState<T | null>(null);
  const over = useRef({ pointer: false, focus: false });
  const newest = useRef(value);
  newest.current = value;
  const question = useRef('');
  const asked = useRef(false);
  const isNew = useRef(true);
  const hold = (): void => setHeld((now) => now ?? newest.current);
  const release = (): void => {
    if (!over.current.pointer && !over.current.focus) setHeld(null);
  };
  useEffect(() => {
    // The first value may be the answer to another page's question.
    if (isNew.current) {
      isNew.current = false;
      return;
    }
    if (asked.current ? over.current.pointer || over.current.focus : held !== null && keyOf(held) === keyOf(value)) setHeld(value);
    asked.current = false;
  }, [value]);
  return {
    shown: held ?? value,
    waits: held !== null && keyOf(held) !== keyOf(value),
    update: () => setHeld(newest.current),
    /** Note that another question is asked, or that the first one has no answer yet: the old answer must not stay. */
    ask(key: string, isPending = false) {
      if (question.current === key) return;
      asked.current = isPending || question.current !== '';
      question.current = key;
      if (held !== null) setHeld(null);
    },
    handlers: {
      onPointerEnter: () => {
        over.current.pointer = true;
        hold();
      },
      onPointerLeave: () => {
        over.current.pointer = false;
        release();
      },
      onFocusIn: () => {
        over.current.focus = true;
        hold();
      },
      onFocusOut: () => {
        over.current.focus = false;
        release();
      },
    },
  };
}
