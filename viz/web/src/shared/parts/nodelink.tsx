import { addressOf, follow } from '../address/address';
import { toNode } from '../address/model/trail';
import type { View } from '../address/model/view';

interface Props {
  name: string;
  /** Time since the run's start that the page shows; the whole time by default. */
  window?: View['window'];
  text?: string;
}

/** Link to a node's page; nothing where the node is not known. */
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
