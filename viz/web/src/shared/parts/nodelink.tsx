import { addressOf, follow } from '../address/address';
import { toNode } from '../address/model/trail';
import type { View } from '../address/model/view';

interface Props {
  name: string;
  /** Times since the run's start that it shows; all, if nothing is said. */
  window?: View['window'];
  text?: string;
}

/** Leads to the page of a node; an unknown node stays empty. */
export function NodeLink({ name, window = null, text = name }: Props) {
  if (name === '') return null;
  const target = toNode(name, window);
  return (
    <a
      href={addressOf(target)}
      title={`Threads and cores of node ${name}`}
      data-node={name}
      onClick={(event) => (follow(event, target), event.stopPropagation())}
    >
      {text}
    </a>
  );
}
