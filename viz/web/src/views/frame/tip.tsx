import { useLayoutEffect, useRef } from 'preact/hooks';
import { notice, spoken, tip } from '../../state/page';

const OFFSET = 12;

/** The one tooltip of the page: beside the mark, never over it, never outside the window. */
export function TipLayer() {
  const box = useRef<HTMLDivElement>(null);
  const shown = tip.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !shown) return;
    const { width, height } = element.getBoundingClientRect();
    const right = shown.x + OFFSET + width <= innerWidth - 4;
    const below = shown.y + OFFSET + height <= innerHeight - 4;
    element.style.left = `${Math.max(4, right ? shown.x + OFFSET : shown.x - OFFSET - width)}px`;
    element.style.top = `${Math.max(4, below ? shown.y + OFFSET : shown.y - OFFSET - height)}px`;
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
