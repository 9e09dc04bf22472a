import { addressOf, follow } from '../address/address';

interface Props {
  id: string;
  isButton?: boolean;
}

/** Link from a call to its incident. */
export function IncidentLink({ id, isButton }: Props) {
  const target = { page: 'incident', incident: id, call: null } as const;
  return (
    <a
      class={isButton ? 'button' : undefined}
      href={addressOf(target)}
      title="Why it was slow: the incident that it is part of"
      data-incident={id}
      onClick={(event) => (follow(event, target), event.stopPropagation())}
    >
      {isButton && 'Incident '}◆ {id}
    </a>
  );
}
