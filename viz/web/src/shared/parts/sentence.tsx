/** A number with its unit, or an option of a command, in which browsers would break lines after hyphens. */
const QUANTITY = /([\d.,]+ (?:(?:h|min) \d+ (?:min|s)|µs|ms|s|h|%)(?![\w-])|--[a-z-]+)/;

/** Sentence in which no line breaks between a number and its unit, or inside a unit or an option. */
export function Sentence({ text }: { text: string }) {
  return <>{text.split(QUANTITY).map((part, at) => (at % 2 === 1 ? <span class="unbroken">{part}</span> : part))}</>;
}
