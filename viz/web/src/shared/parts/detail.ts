import { useEffect, useState } from 'preact/hooks';

/** Time that the pointer must rest before details are requested. */
const REST_MS = 150;

/** Details of what the pointer is over; null until they have arrived, and while it is over nothing. */
export function useDetail<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): T | null {
  const [found, setFound] = useState<{ key: string; value: T } | null>(null);
  useEffect(() => {
    if (key === null) return;
    const asking = new AbortController();
    // Without the details a tooltip only lacks its last line, so an error is not shown.
    const put = (): void =>
      void ask(asking.signal).then(
        (value) => setFound({ key, value }),
        () => undefined,
      );
    const timer = setTimeout(put, REST_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [key]);
  return found !== null && found.key === key ? found.value : null;
}
