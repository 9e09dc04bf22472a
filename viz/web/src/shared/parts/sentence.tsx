/** A number with its unit, or an option of a command; browsers break lines behind hyphens, too. */
const QUANTITY = /([\d.,]+ (?:core-seconds|µs|ms|s|%)(?![\w-])|--[a-z-]+)/;

/** A sentence about times, in which no line ends between a number and its unit, inside the unit or inside an option. */
export function Sentence({ text }: { text: string }) {
  return <>{text.split(QUANTITY).map((part, at) => (at % 2 === 1 ? <span class="unbroken">{part}</span> : part))}</>;
}
