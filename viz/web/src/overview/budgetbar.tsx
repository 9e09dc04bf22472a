import { duration, percent } from '../shared/units/units';
import { lostShare, partsOf } from './model/budgetparts';
import { run } from '../shared/session/session';
import { budget } from './overview';

/** Share from which a part of the bar is wide enough for its name. */
const NAMED = 0.14;

/** Where the time of all threads went, as one bar and in words; below the bar, hatched, what of it was lost. */
export function BudgetBar() {
  const known = budget.value.value?.budget ?? null;
  // Room is kept for what may still come.
  const isNever = budget.value.value !== null && run.value.value?.status.state === 'ended';
  if (known === null || known.threads === 0) return isNever ? null : <div class="budget" data-budget />;
  const lost = lostShare(known);
  return (
    <div class="budget" data-budget>
      <div class="budget-bar" aria-hidden="true">
        {partsOf(known).map(({ name, us, share, look }) => (
          <span key={name} class={`budget-part ${look}`} style={{ flexGrow: share }} title={`${name}: ${duration(us)}, ${percent(share)}`}>
            {share >= NAMED && `${name} ${percent(share)}`}
          </span>
        ))}
        {lost > 0 && <span class="budget-lost" style={{ width: `${100 * lost}%` }} title={`lost: ${percent(lost)}`} />}
      </div>
      <p>{known.sentence}</p>
    </div>
  );
}
