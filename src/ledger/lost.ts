import { DuctileError } from '../base/errors.ts';

/** An operator's hand or a crash of the server, the end of the stream, and what the driver says of both. */
const ENDED = /^(57P01|57P02|08006|ECONNRESET|EPIPE)$/;

/**
 * Whether the database was there and has ended the connection: whoever had just begun may begin again.
 * Where no connection could be had it is not, and nobody should have to wait to be told so.
 */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof DuctileError) || error.code !== 'LEDGER_UNAVAILABLE') return false;
  const { cause } = error;
  if (!(cause instanceof Error)) return false;
  const { code = '' } = cause as { readonly code?: string };
  return ENDED.test(code) || (code === '' && /terminated unexpectedly/.test(cause.message));
}
