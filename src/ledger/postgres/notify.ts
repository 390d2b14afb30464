import pg from 'pg';
import type { Notifier } from '../notifier.ts';

const COALESCE_MS = 20;
const RECONNECT_MS = 1000;
const CONNECT_TIMEOUT_MS = 5000;
/** PostgreSQL cuts longer names in LISTEN and refuses them in NOTIFY. */
const CHANNEL_CHARACTERS_MAX = 63;
/** The ids that fit into one notification, which has at most 8000 bytes. */
const IDS_MAX = 150;
const ID_CHARACTERS_MAX = 48;

/** Sends a payload on a channel in a transaction of its own. */
type Notify = (channel: string, payload: string) => Promise<unknown>;

/**
 * Makes the notifier of hosts over LISTEN/NOTIFY, outside the commits of jobs. A notification without a
 * payload is a hint that work is ready, with a limited rate. A payload has the ids of ended jobs and runs.
 */
export function makeNotifier(connectionString: string, schema: string, notify: Notify): Notifier {
  const channel = `ductile_${schema}`.slice(0, CHANNEL_CHARACTERS_MAX);
  const send = (payload: string) => notify(channel, payload).catch(() => undefined);
  let onHint: (() => void) | undefined;
  let onEnds: ((ids: readonly string[] | undefined) => void) | undefined;
  const subscription = makeSubscription(connectionString, channel, {
    // Notifications before this moment were lost, so check once.
    onListening() {
      onHint?.();
      onEnds?.(undefined);
    },
    onPayload(payload) {
      if (payload === '') onHint?.();
      else onEnds?.(payload.split(' '));
    },
  });
  const hinter = makeHinter(() => send(''));
  const sender = makeSender(send);

  return {
    onHint(callback) {
      onHint = callback;
      subscription.open();
    },
    onEnds(callback) {
      onEnds = callback;
      subscription.open();
    },
    hint: () => hinter.hint(),
    notifyEnds: (ids) => sender.notify(ids),
    async close() {
      hinter.close();
      sender.close();
      await subscription.close();
    },
  };
}

interface Subscription {
  /** Starts listening, if it hasn't yet. */
  open(): void;
  close(): Promise<void>;
}

interface SubscriptionEvents {
  readonly onListening: () => void;
  readonly onPayload: (payload: string) => void;
}

/** Makes a connection that only listens, and reconnects whenever it is lost. */
function makeSubscription(
  connectionString: string,
  channel: string,
  events: SubscriptionEvents,
): Subscription {
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
    next.on('notification', ({ payload = '' }) => events.onPayload(payload));
    next.on('error', () => undefined);
    next.on('end', reconnect);
    try {
      await next.connect();
      await next.query(`listen "${channel}"`);
      events.onListening();
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

/** Sends the first hint at once, and merges the hints of the following interval into one. */
function makeHinter(send: () => Promise<unknown>): { hint(): void; close(): void } {
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  let isPending = false;
  const hint = (): void => {
    if (isClosed) return;
    isPending = timer !== undefined;
    if (isPending) return;
    void send();
    timer = setTimeout(() => {
      timer = undefined;
      if (isPending) hint();
    }, COALESCE_MS);
    timer.unref();
  };
  return {
    hint,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Sends ids at once, because callers wait for them. Ids that arrive during a send go with the next one. */
function makeSender(send: (payload: string) => Promise<unknown>): {
  notify(ids: readonly string[]): void;
  close(): void;
} {
  let waiting: string[] = [];
  let isSending = false;
  let isClosed = false;
  const flush = async (): Promise<void> => {
    isSending = true;
    while (waiting.length > 0) await send(waiting.splice(0, IDS_MAX).join(' '));
    isSending = false;
  };
  return {
    notify(ids) {
      if (isClosed) return;
      // Ductile's ids are short and have no spaces. Callers that wait for other ids read the rows.
      waiting.push(...ids.filter((id) => id.length <= ID_CHARACTERS_MAX && !id.includes(' ')));
      if (!isSending) void flush();
    },
    close() {
      isClosed = true;
      waiting = [];
    },
  };
}
