import { useEffect, useState } from 'preact/hooks';

/** What rests under the pointer is asked about; what it only passes is not. */
const REST_MS = 150;

/** The answer to a question about what is pointed at; null until it is there, and while nothing is. */
export function useDetail<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): T | null {
  const [found, setFound] = useState<{ key: string; value: T } | null>(null);
  useEffect(() => {
    if (key === null) return;
    const asking = new AbortController();
    // A tooltip without its last line needs no message why.
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
