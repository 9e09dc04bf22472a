import { shapeOf, TRIANGLE } from './model/tokens';

/** Mark of a colour slot, as in the charts. */
export function Mark({ slot }: { slot: number }) {
  const { path, hollow } = shapeOf(slot);
  const colour = `var(--slot-${slot % 6})`;
  return (
    <svg class="mark" viewBox="-1.2 -1.2 2.4 2.4" aria-hidden="true">
      <path d={path} fill={hollow ? 'none' : colour} stroke={hollow ? colour : 'none'} stroke-width="0.35" />
    </svg>
  );
}

/** Mark of an abnormal call. */
export function Triangle() {
  return (
    <svg class="mark" viewBox="-1.2 -1.2 2.4 2.4" aria-hidden="true">
      <path d={TRIANGLE} class="anomaly-fill" />
    </svg>
  );
}
