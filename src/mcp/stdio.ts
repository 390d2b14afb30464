import type { Readable, Writable } from 'node:stream';
import {
  parseJSONRPCMessage,
  STDIO_DEFAULT_MAX_BUFFER_SIZE,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { parseJson } from '../base/parse-json.ts';

const LINE_END = 0x0a;

/**
 * Messages as lines, like the transport of the official package, with two differences: numbers are
 * kept exactly, and the end of the input ends nothing, because requests in progress still get their
 * responses.
 */
export function makeStdioTransport(input: Readable, output: Writable): Transport {
  let chunks: Buffer[] = [];
  let size = 0;
  const transport: Transport = {
    start() {
      input.on('data', receive);
      output.on('error', fail);
      return Promise.resolve();
    },
    send(message) {
      return new Promise((resolve, reject) => {
        output.write(`${JSON.stringify(message)}\n`, (error) => {
          if (error instanceof Error) reject(error);
          else resolve();
        });
      });
    },
    close() {
      input.off('data', receive);
      input.pause();
      transport.onclose?.();
      return Promise.resolve();
    },
  };
  const fail = (error: Error): void => {
    transport.onerror?.(error);
    void transport.close();
  };
  const receive = (chunk: Buffer): void => {
    let rest = chunk;
    for (let end = rest.indexOf(LINE_END); end !== -1; end = rest.indexOf(LINE_END)) {
      const line = Buffer.concat([...chunks, rest.subarray(0, end)]).toString();
      chunks = [];
      size = 0;
      rest = rest.subarray(end + 1);
      deliver(line);
    }
    chunks.push(rest);
    size += rest.length;
    if (size > STDIO_DEFAULT_MAX_BUFFER_SIZE) {
      fail(new Error(`a message is longer than ${STDIO_DEFAULT_MAX_BUFFER_SIZE} bytes`));
    }
  };
  const deliver = (line: string): void => {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(parseJson(line));
    } catch (thrown) {
      // Some programs print other lines to the same pipe.
      if (!(thrown instanceof SyntaxError)) transport.onerror?.(thrown as Error);
      return;
    }
    transport.onmessage?.(message);
  };
  return transport;
}
