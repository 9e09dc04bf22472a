import { useEffect, useRef } from 'preact/hooks';
import { KEYS, MARKS } from './model/keyhelp';
import { canNotify, isRefused, switchNotifications } from './notifications';
import { isReport } from '../shared/api/report';
import { helpOpen } from '../shared/session/page';
import { lettersAct, notifies, setLetters, setWallTimes, wallTimes } from '../shared/session/settings';

/** Help: keys, marks, and the settings of both. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog
      ref={dialog}
      aria-label="Help"
      onClose={() => (helpOpen.value = false)}
      onClick={(event) => event.target === dialog.current && (helpOpen.value = false)}
    >
      <button class="close" onClick={() => (helpOpen.value = false)}>
        Close
      </button>
      <h2>Keys</h2>
      <label class="inline">
        <input type="checkbox" checked={lettersAct.value} onChange={(event) => setLetters(event.currentTarget.checked)} />
        single letters and signs act as keys outside charts, too
      </label>
      <label class="inline">
        <input type="checkbox" checked={wallTimes.value} onChange={(event) => setWallTimes(event.currentTarget.checked)} />
        show the time of day (UTC) instead of the time since the run's start
      </label>
      {!isReport && (
        <label class="inline">
          <input
            type="checkbox"
            checked={notifies.value}
            disabled={!canNotify || isRefused.value}
            onChange={(event) => void switchNotifications(event.currentTarget.checked)}
          />
          notify me of new incidents while I look at something else
          {isRefused.value && ' (the browser does not allow it: change that in its settings of this site)'}
          {!canNotify && ' (needs HTTPS, or an address of this computer)'}
        </label>
      )}
      {KEYS.map(([where, keys]) => (
        <section key={where}>
          <h3>{where}</h3>
          <List rows={keys} />
        </section>
      ))}
      <h2>Marks</h2>
      <List rows={MARKS} />
    </dialog>
  );
}

function List({ rows }: { rows: readonly (readonly [string, string])[] }) {
  return (
    <dl>
      {rows.map(([term, text]) => [
        <dt key={term}>
          <kbd>{term}</kbd>
        </dt>,
        <dd key={text}>{text}</dd>,
      ])}
    </dl>
  );
}
