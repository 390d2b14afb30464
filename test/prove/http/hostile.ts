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
  /** The complete response. */
  readonly text: string;
}

/**
 * Sends bytes and waits for the first complete response, or until the server disconnects. `isAll`
 * closes the sending side, so that the server doesn't wait for the rest of a request.
 */
export function sendBytes(port: number, bytes: string | Buffer, isAll = false): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (isStream(text) || (!isAll && isWhole(text))) socket.destroy();
    });
    // It is expected that a server disconnects before it has read everything.
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(toAnswer(text)));
    if (isAll) socket.end(bytes);
    else socket.write(bytes);
  });
}

/** A stream never ends by itself. */
function isStream(text: string): boolean {
  return /^content-type: text\/event-stream/im.test(text);
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return false;
  const length = /^content-length: (\d+)/im.exec(text.slice(0, end))?.[1];
  return length !== undefined && text.length >= end + 4 + Number(length);
}

function toAnswer(text: string): Answer {
  const end = text.indexOf('\r\n\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
  return { status, head: text.slice(0, Math.max(0, end)), body: text.slice(end + 4), text };
}
