import { useRef, useState } from 'preact/hooks';

export interface MenuItem {
  text: string;
  /** Effect of the item, in a few words. */
  title?: string;
  act: () => void;
}

interface Props {
  /** Accessible name of the menu. */
  label: string;
  text: string;
  /** Items, requested when the menu is opened. */
  items: () => readonly MenuItem[] | Promise<readonly MenuItem[]>;
  quiet?: boolean;
}

const MARGIN = 4;

/** Button with a menu: arrow keys move, Enter acts, Esc closes, and the focus returns to the button. */
export function Menu({ label, text, items, quiet = true }: Props) {
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<readonly MenuItem[] | null>(null);
  const open = async (): Promise<void> => {
    setShown(await items());
    requestAnimationFrame(() => {
      if (!button.current || !list.current) return;
      list.current.showPopover();
      place(list.current, button.current.getBoundingClientRect());
      entries(list.current)[0]?.focus();
    });
  };
  const close = (): void => {
    list.current?.hidePopover();
    button.current?.focus();
  };
  const move = (event: KeyboardEvent): void => {
    // While a menu is open, the keys of the page do not act.
    event.stopPropagation();
    const all = list.current ? entries(list.current) : [];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === 'Escape') close();
    else if (event.key === 'Tab') list.current?.hidePopover();
    else if (next !== undefined) all.at(next % all.length)?.focus();
    else return;
    if (event.key !== 'Tab') event.preventDefault();
  };
  return (
    <>
      <button
        ref={button}
        class={quiet ? 'quiet menu-button' : 'menu-button'}
        aria-haspopup="menu"
        aria-expanded={shown !== null}
        aria-label={label}
        title={label}
        onClick={() => (shown === null ? void open() : close())}
      >
        {text}
      </button>
      <div
        ref={list}
        class="menu"
        popover="auto"
        role="menu"
        aria-label={label}
        onKeyDown={move}
        onToggle={(event) => event.newState === 'closed' && setShown(null)}
      >
        {shown?.map((item) => (
          <button
            key={item.text}
            role="menuitem"
            tabIndex={-1}
            title={item.title}
            onClick={() => {
              close();
              item.act();
            }}
          >
            {item.text}
          </button>
        ))}
      </div>
    </>
  );
}

const entries = (list: HTMLElement): HTMLElement[] => [...list.querySelectorAll<HTMLElement>('[role=menuitem]')];

/** Put the list below the button, aligned at the right if the window has room. */
function place(list: HTMLElement, button: DOMRect): void {
  const { width, height } = list.getBoundingClientRect();
  const below = button.bottom + MARGIN + height <= innerHeight;
  const left = Math.max(MARGIN, Math.min(button.right - width, innerWidth - width - MARGIN));
  const top = below ? button.bottom + MARGIN : Math.max(MARGIN, button.top - MARGIN - height);
  // On a zoomed page, positions and measures are in different pixels.
  const scale = list.offsetWidth > 0 ? width / list.offsetWidth : 1;
  list.style.left = `${left / scale}px`;
  list.style.top = `${top / scale}px`;
}
