import { useLayoutEffect } from 'preact/hooks';
import { isAnswered } from '../session/settling';

/** A number with its unit, or an option of a command, in which browsers would break lines after hyphens. */
const QUANTITY = /([\d.,]+ (?:(?:h|min) \d+ (?:min|s)|µs|ms|s|h|%)(?![\w-])|--[a-z-]+)/;

/** Sentence in which no line breaks between a number and its unit, or inside a unit or an option. */
export function Sentence({ text }: { text: string }) {
  return <>{text.split(QUANTITY).map((part, at) => (at % 2 === 1 ? <span class="unbroken">{part}</span> : part))}</>;
}

/**
 * Answer that a page opens with.
 *
 * @param text one sentence; empty until it is known, when its line is kept free.
 * @param sign what was found, as one character.
 */
export function Answer({ text, sign = '' }: { text: string; sign?: string }) {
  useLayoutEffect(() => {
    isAnswered.value = text !== '';
    return () => (isAnswered.value = false);
  }, [text]);
  return (
    <h1 class="answer" data-answer>
      {sign !== '' && (
        <>
          <span class="abnormal">{sign}</span>{' '}
        </>
      )}
      <Sentence text={text} />
    </h1>
  );
}
