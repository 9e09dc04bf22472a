import { placedName } from '../shared/names/names';
import { copy } from '../shared/session/page';
import { Go } from './frame';
import type { Incident } from '../shared/api/types';

/** Command that records more of what a function calls; the words in capitals are the user's. */
const RECORDED = 'chimbuko run -- chimbuko trace --overhead 10% PROGRAM';

/** What to do about time that a function lost in its own code, where nothing else on record explains it. */
export function Next({ incident, hasNormal }: { incident: Incident; hasNormal: boolean }) {
  const { kind, function: name, program, call_id: call } = incident;
  if (kind !== 'own code' || call === '') return null;
  return (
    <p class="because" data-next>
      What to do: open <Go to={{ page: 'function', function: name, program, call: null, incident: null, cursor: null }} text={placedName(name)} />, as nothing
      else on record was slow with it;{' '}
      <Go to={{ page: 'call', call }} text={hasNormal ? 'compare it with a normal call' : 'see all that is kept of the call'} />; record more of what it calls:{' '}
      <button class="quiet" title="Copy this command" onClick={() => void copy(RECORDED)}>
        <code>{RECORDED}</code>
      </button>
    </p>
  );
}
