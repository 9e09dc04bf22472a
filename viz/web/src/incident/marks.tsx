import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { post, Refused } from '../shared/api/http';
import { isReport } from '../shared/api/report';
import { say } from '../shared/session/page';
import { askAgain } from '../shared/session/question';
import type { Mark, MarkAnswer } from '../shared/api/types';

type State = Mark['state'];

interface Marked {
  id: string;
  mark: string;
  note: string;
  marked_by: string;
}

/** States that a key or a button gives a finding, and what follows. */
const STATES: readonly (readonly [state: 'known' | 'ignored', text: string, title: string])[] = [
  ['known', 'Known', 'Somebody looks after it: no alert is sent any more (K)'],
  ['ignored', 'Ignored', 'It is as it should be: no alert is sent, and comparisons leave it out (I)'],
];

/** Whether the field for the note is open. */
const writing = signal(false);

/** Finding whose page is open; null where there is none. */
const shown = signal<Marked | null>(null);

/** Mark the finding whose page is open, or take that mark away; return whether there is one. */
export function toggleMark(state: 'known' | 'ignored'): boolean {
  const one = shown.peek();
  if (one === null || isReport) return false;
  const next: State | null = one.mark !== state ? state : one.note === '' ? null : 'noted';
  void send(one, next, one.note);
  return true;
}

/** Open the field for the note of the finding whose page is open. */
export function writeNote(): boolean {
  if (shown.peek() === null || isReport) return false;
  writing.value = true;
  return true;
}

async function send({ id }: Marked, state: State | null, note: string): Promise<void> {
  try {
    await post<MarkAnswer>('marks', { finding: id, state, note });
    say(state === null ? `${id} has no mark any more.` : `${id} is marked as ${state}.`);
  } catch (error) {
    say(error instanceof Refused ? `${id} could not be marked: ${error.message}` : `${id} could not be marked: the server does not answer.`);
  }
  askAgain(true);
}

/** Marks of a finding: whether it is known or ignored, and a note for others. */
export function Marks({ of }: { of: Marked }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    shown.value = of;
    return () => (shown.value = null);
  }, [of]);
  if (isReport) return <Said of={of} />;
  const save = (event: Event): void => {
    event.preventDefault();
    const note = field.current?.value.trim() ?? '';
    writing.value = false;
    const kept = of.mark === 'noted' || of.mark === '' ? (note === '' ? null : 'noted') : (of.mark as State);
    void send(of, kept, note);
  };
  return (
    <div class="marks" data-mark={of.mark}>
      {STATES.map(([state, text, title]) => (
        <button key={state} aria-pressed={of.mark === state} title={title} onClick={() => toggleMark(state)}>
          {text}
        </button>
      ))}
      {writing.value ? (
        <form onSubmit={save}>
          <input
            ref={(input) => {
              field.current = input;
              input?.focus();
            }}
            aria-label="Note"
            defaultValue={of.note}
            maxLength={2000}
            onKeyDown={(event) => event.key === 'Escape' && (writing.value = false)}
          />
          <button type="submit">Save</button>
        </form>
      ) : (
        <button class="quiet" title="A note for others (N)" onClick={() => (writing.value = true)}>
          {of.note === '' ? 'Note' : 'Change note'}
        </button>
      )}
      {!writing.value && <Said of={of} />}
    </div>
  );
}

/** Mark in words: who said what. */
function Said({ of: { mark, note, marked_by } }: { of: Marked }) {
  if (mark === '') return null;
  return (
    <span class="mark-said">
      {mark} by {marked_by}
      {note !== '' && `: ${note}`}
    </span>
  );
}
