/** Raw input of strangers over a socket, each with its expected response. */
import { connect } from 'node:net';
import { OWNER } from '../../support/api-server.ts';

export interface Hostile {
  /** The number in the list of kinds that docs/internals/proof.md has. */
  readonly kind: number;
  readonly what: string;
  readonly bytes: string | Buffer;
  readonly status: number;
  /** The end of a request is in doubt, so the connection must be closed behind the response. */
  readonly isOpenEnded?: boolean;
}

export const token = `authorization: Bearer ${OWNER}`;
export const host = 'host: 127.0.0.1';
export const post = 'POST /plugin/echo/poll HTTP/1.1';
export const get = 'GET /jobs HTTP/1.1';

/** A head and the empty line behind it. */
export function lines(...parts: readonly string[]): string {
  return `${parts.join('\r\n')}\r\n\r\n`;
}

export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
  /** All that came. */
  readonly said: string;
}

/**
 * Sends bytes and waits for the first whole answer, or until the server hangs up. With `isAll` it
 * says that nothing more will come, so that nobody waits for the rest of a request.
 */
export function sendBytes(port: number, bytes: string | Buffer, isAll = false): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let said = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      said += chunk;
      if (isStream(said) || (!isAll && isWhole(said))) socket.destroy();
    });
    // A server that hangs up while more is on its way is what is looked at, not a fault.
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(toAnswer(said)));
    if (isAll) socket.end(bytes);
    else socket.write(bytes);
  });
}

/** It would go on for ever. */
function isStream(said: string): boolean {
  return /^content-type: text\/event-stream/im.test(said);
}

function isWhole(said: string): boolean {
  const end = said.indexOf('\r\n\r\n');
  if (end === -1) return false;
  const length = /^content-length: (\d+)/im.exec(said.slice(0, end))?.[1];
  return length !== undefined && said.length >= end + 4 + Number(length);
}

function toAnswer(said: string): Answer {
  const end = said.indexOf('\r\n\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1] ?? 0);
  return { status, head: said.slice(0, Math.max(0, end)), body: said.slice(end + 4), said };
}
