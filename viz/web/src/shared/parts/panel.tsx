import type { ComponentChildren, HTMLAttributes, RefObject } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { go, view } from '../address/address';
import { PanelMenu, type Asks } from './panelmenu';

interface PanelProps {
  name: string;
  title: string;
  /** One sentence for those who do not see the picture. */
  summary: string;
  actions?: ComponentChildren;
  /** Handlers that keep the panel's list still. */
  hold?: HTMLAttributes<HTMLElement>;
  /** The same content as a table; where there is none, the panel is one. */
  table?: (() => ComponentChildren) | undefined;
  /** What the panel shows, for other tools. */
  asks?: Asks | undefined;
  children: ComponentChildren;
}

/**
 * A titled part of the page; key T swaps a picture for its table.
 *
 * Its menu ⋯ copies the link and saves PNG, SVG and CSV by itself. What else it copies the panel says by `asks`:
 * `asks={{ json: api.callsRequest(view.value), hasSql: true, command: (directory) => queryCommand(directory, view.value) }}`.
 * For pictures, canvases of `charts/canvas` are painted twice as fine for a moment, as long as they follow their size.
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

/** Whether a box can be scrolled and has nothing in it that takes the focus: without it, no key would scroll the box. */
function useNeedsFocus(body: RefObject<HTMLElement | null>): boolean {
  const [needs, setNeeds] = useState(false);
  useEffect(() => {
    const box = body.current;
    if (!box) return;
    // It reports after the layout, which reading at any other time would force.
    const observer = new ResizeObserver(() => {
      const isCutOff = box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth;
      setNeeds(isCutOff && box.querySelector(FOCUSABLE) === null);
    });
    for (const one of [box, ...box.children]) observer.observe(one);
    return () => observer.disconnect();
  });
  return needs;
}

/** Swap picture and table of these panels. */
export function toggleTables(names: readonly string[]): void {
  const shown = view.value.tables;
  const all = names.every((name) => shown.includes(name));
  const rest = shown.filter((name) => !names.includes(name));
  go({ tables: all ? rest : [...rest, ...names] }, 'replace');
}

/** What stands in a panel that has nothing to show: why, and what to do. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** For requests that take a while: nothing at first, then a word. */
export function Reading({ what }: { what: string }) {
  return <p class="empty reading">Reading {what}…</p>;
}

/** What a list that is kept still says of its order. */
export interface Held {
  waits: boolean;
  update: () => void;
}

/** Takes the order that has come while a list was kept still; narrow panels show its last word alone. */
export function NewOrder({ held: { waits, update } }: { held: Held }) {
  if (!waits) return null;
  return (
    <button class="quiet" aria-label="order changed · update" onClick={update}>
      <span class="in-wide">order changed · </span>update
    </button>
  );
}

/**
 * Keeps a list still while the pointer is over it or the focus in it.
 *
 * Gives what to show, whether something newer waits, a way to take it, and the handlers of the list.
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
    // What is there from the start may be the answer to another page's question.
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
    /** Another question was asked, or the first while its answer is still to come: the old answer must not stay. */
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
