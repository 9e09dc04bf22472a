import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { patternOf, suggested } from './model/suggestions';
import { go, view } from '../shared/address/address';
import { finding, functionNames } from './calls';

/** Field for the function of the filter: it proposes functions of the run, and takes a pattern such as MPI_*. */
export function FindFunction() {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState<string | null>(null);
  const [at, setAt] = useState(-1);
  const chosen = view.value.function;
  const rows = functionNames.value.value?.functions ?? [];
  const found = useMemo(() => (text === null ? [] : suggested(text, rows)), [text, rows]);
  useEffect(() => {
    if (input.current && text === null) input.current.value = chosen;
  }, [chosen, text]);
  const isOpen = text !== null && found.length > 0;
  const close = (): void => {
    finding.value = false;
    setText(null);
    setAt(-1);
  };
  const take = (name: string): void => {
    close();
    if (name !== chosen) go({ function: name, cursor: null });
    else if (input.current) input.current.value = chosen;
  };
  const submit = (typed: string): void =>
    take(
      found[at]?.name ??
        patternOf(
          typed,
          rows.map((row) => row.name),
        ),
    );
  const move = (event: KeyboardEvent & { currentTarget: HTMLInputElement }): void => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way !== undefined && isOpen) setAt(Math.min(found.length - 1, Math.max(-1, at + way)));
    else if (event.key === 'Enter') submit(event.currentTarget.value);
    else if (event.key === 'Escape' && text !== null) {
      close();
      event.stopPropagation();
      return;
    } else return;
    event.preventDefault();
  };
  return (
    <div class="find">
      <label class="inline">
        Find
        <input
          ref={input}
          type="text"
          class="wide"
          role="combobox"
          aria-expanded={isOpen}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
          placeholder="function, MPI_*"
          title="Part of a function's name, or a pattern with * and ?"
          spellcheck={false}
          onFocus={() => (finding.value = true)}
          onInput={(event) => (setText(event.currentTarget.value), setAt(-1))}
          onBlur={(event) => (text === null ? close() : submit(event.currentTarget.value))}
          onKeyDown={move}
        />
      </label>
      <ul id={`${id}-list`} class="found" role="listbox" aria-label="Functions" hidden={!isOpen}>
        {found.map((one, place) => (
          <li
            key={one.name}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === at}
            title={one.name}
            onPointerDown={(event) => {
              // Before the field loses the focus, which would apply the text that was typed.
              event.preventDefault();
              take(one.name);
            }}
          >
            <span class="found-text">{one.text}</span>
            <span class="found-detail">{one.detail}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
