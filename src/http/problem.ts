import { STATUS_CODES } from 'node:http';
import type { DuctileError } from '../base/errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** The body of a failure (RFC 9457) with the fields of the catalogue, and `error` in plain words. */
export function toProblem(error: DuctileError, requestId: string): string {
  const { status } = error.kind;
  // What went wrong inside is for the log; a stranger gets the id to look it up by.
  const message = error.code === 'INTERNAL' ? 'something went wrong inside' : error.message;
  const problem = {
    type: `urn:ductile:error:${error.code}`,
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: message,
    ...error.toJSON(),
    error: message,
    request_id: requestId,
  };
  return `${JSON.stringify(problem)}\n`;
}
