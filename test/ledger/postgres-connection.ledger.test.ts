/** The message of a server on a connection that isn't assigned yet. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/ledger/postgres/store.ts';

const welcome = Buffer.concat([say('R', Buffer.alloc(4)), say('Z', Buffer.from('I'))]);
const farewell = say('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0'));

function say(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

test('a connection that is ended with its welcome is an outage and not the end of us', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    // In one piece, so that nothing else can happen between them.
    socket.once('data', () => socket.end(Buffer.concat([welcome, farewell])));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const store = openPostgres(`postgres://someone@127.0.0.1:${port}/ledger`, 'ledger');
  onTestFinished(() => store.close());
  const pending = store.read((session) => session.run('select 1'));
  await expect(pending).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
});
