import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Width and height of an element in CSS pixels, kept up to date; 0 until it is laid out. */
export function useSize<T extends HTMLElement>() {
  const element = useRef<T>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observed = element.current;
    if (!observed) return;
    const read = (): void => setSize({ width: observed.clientWidth, height: observed.clientHeight });
    const observer = new ResizeObserver(read);
    observer.observe(observed);
    read();
    return () => observer.disconnect();
  }, []);
  return { element, ...size };
}
