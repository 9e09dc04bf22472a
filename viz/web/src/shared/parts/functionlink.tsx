import { shorten } from '../names/names';
import { addressOf, follow } from '../address/address';

interface Props {
  name: string;
  program: number;
  /** Name as the view has shortened it; otherwise it is shortened here. */
  text?: string;
}

/** Link to a function's page, with the full name in the tooltip. */
export function FunctionLink({ name, program, text }: Props) {
  const target = { page: 'function', function: name, program, call: null, cursor: null } as const;
  const short = shorten(name, 40);
  return (
    <a
      class="function-link"
      href={addressOf(target)}
      title={name}
      data-function-link={name}
      onClick={(event) => (follow(event, target), event.stopPropagation())}
    >
      {text ?? short.text} {short.tag && <em>{short.tag}</em>}
    </a>
  );
}
