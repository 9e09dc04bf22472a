/** Requests for published quantities and the workflow. */

import { get } from './http';
import type { Request } from './request';
import type { QuantityAnswer, WorkflowAnswer } from './types';

export interface QuantityName {
  namespace: string;
  quantity: string;
}

/** Name as one text; names of namespaces contain no slash. */
export const nameOf = ({ namespace, quantity }: QuantityName): string => `${namespace}/${quantity}`;

export function quantityOf(name: string): QuantityName {
  const [namespace = '', quantity = ''] = name.split(/\/(.*)/s);
  return { namespace, quantity };
}

export const workflowRequest: Request = ['workflow', []];

export const getWorkflow = (signal: AbortSignal): Promise<WorkflowAnswer> => get(...workflowRequest, signal);

export const quantityRequest = ({ namespace, quantity }: QuantityName): Request => [
  'quantity',
  [
    ['namespace', namespace],
    ['name', quantity],
  ],
];

export const getQuantity = (of: QuantityName, signal: AbortSignal): Promise<QuantityAnswer> => get(...quantityRequest(of), signal);
