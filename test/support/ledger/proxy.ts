/** A proxy between a ledger and PostgreSQL that loses connections at chosen statements. */
import { createServer, connect, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * The fate of the chosen statement: `unsent` never reaches the server; `unanswered` is carried out,
 * but its response is lost; `unheard` is sent, and the client doesn't wait for the result.
 */
export type Loss = 'unsent' | 'unanswered' | 'unheard';

export interface Proxy {
  readonly url: string;
  /** Loses the connection at the nth statement from now on, or at the next one that is a commit. */
  readonly loseAt: (at: number | 'commit', loss: Loss) => void;
  /** Number of lost connections. */
  readonly lost: () => number;
  /** Closes all connections and refuses new ones until `up`. */
  readonly down: () => Promise<void>;
  readonly up: () => Promise<void>;
}

interface Plan {
  left: number | 'commit';
  readonly loss: Loss;
}

export async function makeProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let plan: Plan | undefined;
  let lost = 0;

  /** Returns the loss for the chosen statement, once. */
  const strikes = (statement: Statement): Loss | undefined => {
    if (plan === undefined) return undefined;
    if (plan.left === 'commit' ? !statement.isCommit : (plan.left -= 1) > 0) return undefined;
    const { loss } = plan;
    plan = undefined;
    lost += 1;
    return loss;
  };

  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: Number(port), host: hostname, noDelay: true });
    const split = makeSplitter();
    let isDeaf = false;
    const drop = (): void => {
      client.destroy();
      upstream.destroy();
    };
    client.on('data', (bytes) => {
      for (const message of split(bytes)) {
        const loss = message.statement && strikes(message.statement);
        if (loss !== 'unsent') upstream.write(message.bytes);
        if (loss === 'unanswered') isDeaf = true;
        if (loss === 'unsent') upstream.destroy();
        if (loss === 'unsent' || loss === 'unheard') {
          client.destroy();
          return;
        }
      }
    });
    upstream.on('data', (bytes) => {
      // The response is complete when the server is ready for the next query.
      if (isDeaf && bytes.at(-6) === READY) drop();
      else if (!isDeaf) client.write(bytes);
    });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    client.on('close', () => upstream.end());
    upstream.on('close', () => client.destroy());
  });

  const own = await listen(server, 0);
  const down = async (): Promise<void> => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  onTestFinished(async () => {
    if (server.listening) await down();
  });
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(own);
  return {
    url: url.href,
    loseAt: (at, loss) => void (plan = { left: at, loss }),
    lost: () => lost,
    down,
    async up() {
      await listen(server, own);
    },
  };
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
}

interface Statement {
  readonly isCommit: boolean;
}

interface Message {
  readonly bytes: Buffer;
  /**
   * Set for a message that ends a statement: a simple query, or the sync after prepared ones.
   */
  readonly statement?: Statement;
}

const READY = 'Z'.charCodeAt(0);

/** Splits the client's bytes into messages. All but the first start with a letter. */
function makeSplitter(): (bytes: Buffer) => Message[] {
  let rest = Buffer.alloc(0);
  let isFirst = true;
  let isCommit = false;
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    const messages: Message[] = [];
    for (;;) {
      const letters = isFirst ? 0 : 1;
      if (rest.length < letters + 4) break;
      const end = letters + rest.readUInt32BE(letters);
      if (rest.length < end) break;
      const message = rest.subarray(0, end);
      const letter = isFirst ? '' : String.fromCharCode(message[0] ?? 0);
      // The message that binds values names the prepared statement, after an empty portal.
      isCommit ||= letter === 'B' && message.toString('utf8', 6, 13) === 'commit\0';
      const ends = letter === 'Q' || letter === 'S';
      messages.push(ends ? { bytes: message, statement: { isCommit } } : { bytes: message });
      if (ends) isCommit = false;
      rest = rest.subarray(end);
      isFirst = false;
    }
    return messages;
  };
}
