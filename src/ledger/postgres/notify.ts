import pg from 'pg';
import type { Notifier } from '../notifier.ts';

const COALESCE_MS = 20;
const RECONNECT_MS = 1000;
const CONNECT_TIMEOUT_MS = 5000;
/** PostgreSQL cuts longer names when it listens and refuses them when it notifies. */
const CHANNEL_CHARACTERS_MAX = 63;
/** As many ids as one notification takes, which may have 8000 bytes. */
const IDS_MAX = 150;
const ID_CHARACTERS_MAX = 48;

/** How a payload is sent on a channel, in a transaction of its own. */
type Notify = (channel: string, payload: string) => Promise<unknown>;

/**
 * What hosts tell each other over LISTEN/NOTIFY, outside of every job's own commit. Without a payload
 * it is a hint that there is work, sent at most once in a while; with one, the ids of what has ended.
 */
export function makeNotifier(connectionString: string, schema: string, notify: Notify): Notifier {
  const channel = `ductile_${schema}`.slice(0, CHANNEL_CHARACTERS_MAX);
  const send = (payload: string) => notify(channel, payload).catch(() => undefined);
  let onHint: (() => void) | undefined;
  let onEnds: ((ids: readonly string[] | undefined) => void) | undefined;
  const ear = makeEar(connectionString, channel, {
    // What was said while nobody listened is unknown, so look once.
    onListening() {
      onHint?.();
      onEnds?.(undefined);
    },
    onSaid(payload) {
      if (payload === '') onHint?.();
      else onEnds?.(payload.split(' '));
    },
  });
  const hinter = makeHinter(() => send(''));
  const sender = makeSender(send);

  return {
    onHint(callback) {
      onHint = callback;
      ear.open();
    },
    onEnds(callback) {
      onEnds = callback;
      ear.open();
    },
    hint: () => hinter.hint(),
    notifyEnds: (ids) => sender.notify(ids),
    async close() {
      hinter.close();
      sender.close();
      await ear.close();
    },
  };
}

interface Ear {
  /** Begins to listen, if it has not. */
  open(): void;
  close(): Promise<void>;
}

interface Hearing {
  readonly onListening: () => void;
  readonly onSaid: (payload: string) => void;
}

/** A connection that only listens, and is made anew whenever it is lost. */
function makeEar(connectionString: string, channel: string, hearing: Hearing): Ear {
  let client: pg.Client | undefined;
  let isOpen = false;
  let isClosed = false;
  let retry: NodeJS.Timeout | undefined;

  const connect = async (): Promise<void> => {
    const next = new pg.Client({
      connectionString,
      application_name: 'ductile-listen',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
    client = next;
    next.on('notification', ({ payload = '' }) => hearing.onSaid(payload));
    next.on('error', () => undefined);
    next.on('end', reconnect);
    try {
      await next.connect();
      await next.query(`listen "${channel}"`);
      hearing.onListening();
    } catch {
      await next.end().catch(() => undefined);
      reconnect();
    }
  };

  const reconnect = (): void => {
    if (isClosed) return;
    clearTimeout(retry);
    retry = setTimeout(() => void connect(), RECONNECT_MS);
    retry.unref();
  };

  return {
    open() {
      if (isOpen || isClosed) return;
      isOpen = true;
      void connect();
    },
    async close() {
      isClosed = true;
      clearTimeout(retry);
      client?.removeAllListeners('end');
      await client?.end().catch(() => undefined);
    },
  };
}

/** The first is sent at once; those that follow soon are one, when some time has passed. */
function makeHinter(send: () => Promise<unknown>): { hint(): void; close(): void } {
  let isClosed = false;
  let quiet: NodeJS.Timeout | undefined;
  let owed = false;
  const hint = (): void => {
    if (isClosed) return;
    owed = quiet !== undefined;
    if (owed) return;
    void send();
    quiet = setTimeout(() => {
      quiet = undefined;
      if (owed) hint();
    }, COALESCE_MS);
    quiet.unref();
  };
  return {
    hint,
    close() {
      isClosed = true;
      clearTimeout(quiet);
    },
  };
}

/** Sent at once, because somebody waits; what ends while one is under way goes with the next. */
function makeSender(send: (payload: string) => Promise<unknown>): {
  notify(ids: readonly string[]): void;
  close(): void;
} {
  let owed: string[] = [];
  let isSending = false;
  let isClosed = false;
  const flush = async (): Promise<void> => {
    isSending = true;
    while (owed.length > 0) await send(owed.splice(0, IDS_MAX).join(' '));
    isSending = false;
  };
  return {
    notify(ids) {
      if (isClosed) return;
      // Ours are short and have no spaces; whoever waits for another kind of id looks for itself.
      owed.push(...ids.filter((id) => id.length <= ID_CHARACTERS_MAX && !id.includes(' ')));
      if (!isSending) void flush();
    },
    close() {
      isClosed = true;
      owed = [];
    },
  };
}
