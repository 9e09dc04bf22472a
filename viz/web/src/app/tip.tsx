import { useLayoutEffect, useRef } from 'preact/hooks';
import { notice, spoken, tip } from '../shared/session/page';
import { pageZoom } from '../shared/session/theme';

const OFFSET = 12;

/** The page's only tooltip: beside a position in the window, never over it, and never outside the window. */
export function TipLayer() {
  const box = useRef<HTMLDivElement>(null);
  const shown = tip.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !shown) return;
    const { width, height } = element.getBoundingClientRect();
    const offset = OFFSET * pageZoom.value;
    const right = shown.x + offset + width <= innerWidth - 4;
    const below = shown.y + offset + height <= innerHeight - 4;
    const left = Math.max(4, right ? shown.x + offset : shown.x - offset - width);
    const top = Math.max(4, below ? shown.y + offset : shown.y - offset - height);
    element.style.left = `${left / pageZoom.value}px`;
    element.style.top = `${top / pageZoom.value}px`;
  }, [shown]);
  return (
    <>
      {shown && (
        <div class="tip" role="tooltip" ref={box}>
          {shown.lines.map((line, index) => (index === 0 ? <strong key={index}>{line}</strong> : <div key={index}>{line}</div>))}
        </div>
      )}
      <div class={notice.value === '' ? 'hidden' : 'notice'} role="status" aria-live="polite">
        {notice.value}
      </div>
      <div class="hidden" aria-live="polite">
        {spoken.value}
      </div>
    </>
  );
}
