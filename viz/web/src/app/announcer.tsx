import { useEffect, useRef, useState } from 'preact/hooks';
import { SIGNS } from '../shared/session/model/status';
import { exact, plural } from '../shared/units/units';
import { banner, condition } from '../shared/session/feed';
import { status } from '../shared/session/session';

/** Least time between two announcements, so that a screen reader can read something else in between. */
const QUIET_MS = 10_000;

/**
 * Announces to screen readers changes of the run's state and, from time to time, the number of new anomalies.
 * The two have live regions of their own, so that neither interrupts the other.
 */
export function Announcer() {
  const [change, setChange] = useState('');
  const [news, setNews] = useState('');
  const announced = useRef({ anomalies: -1, at_ms: 0 });
  const state = condition.value;
  const anomalies = status.value?.anomalies ?? null;
  useEffect(() => {
    if (state !== 'connecting') setChange(`${SIGNS[state][1]}. ${banner.peek()}`);
  }, [state]);
  useEffect(() => {
    if (anomalies === null) return;
    const last = announced.current;
    if (last.anomalies < 0) {
      last.anomalies = anomalies;
      return;
    }
    if (anomalies <= last.anomalies) return;
    const wait_ms = Math.max(0, last.at_ms + QUIET_MS - Date.now());
    const timer = setTimeout(() => {
      setNews(`${plural(anomalies - last.anomalies, 'new anomaly')}, ${exact(anomalies)} in all.`);
      announced.current = { anomalies, at_ms: Date.now() };
    }, wait_ms);
    return () => clearTimeout(timer);
  }, [anomalies]);
  return (
    <div class="hidden" aria-live="polite" data-announcer>
      <p>{change}</p>
      <p>{news}</p>
    </div>
  );
}
