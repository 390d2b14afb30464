import { DuctileError } from '../../base/errors.ts';

/** An operator's hand or a crash of the server, and the end of the stream. */
const ENDED = /^(57P01|57P02|08006|ECONNRESET|EPIPE)$/;
/** What the driver says of both, then and when the connection is used again. */
const SAID = /terminated unexpectedly|is not queryable/;

/**
 * Whether the database was there and has ended the connection: whoever had just begun may begin again.
 * Where no connection could be had it is not, and nobody should have to wait to be told so.
 */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof DuctileError) || error.code !== 'LEDGER_UNAVAILABLE') return false;
  const { cause } = error;
  if (!(cause instanceof Error)) return false;
  const { code = '' } = cause as { readonly code?: string };
  return ENDED.test(code) || (code === '' && SAID.test(cause.message));
}
