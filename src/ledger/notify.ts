import pg from 'pg';

const COALESCE_MS = 20;
const RECONNECT_MS = 1000;
const CONNECT_TIMEOUT_MS = 5000;
/** PostgreSQL cuts longer names when it listens and refuses them when it notifies. */
const CHANNEL_CHARACTERS_MAX = 63;

export interface Notifier {
  onHint(listener: () => void): void;
  hint(): void;
  close(): Promise<void>;
}

/**
 * Hints between hosts over LISTEN/NOTIFY. A hint is sent outside of every job's own commit, at most
 * one in a while, and may be lost at any time: looking is the truth, this only makes it sooner.
 */
export function makeNotifier(
  connectionString: string,
  schema: string,
  notify: (channel: string) => Promise<unknown>,
): Notifier {
  const channel = `ductile_${schema}`.slice(0, CHANNEL_CHARACTERS_MAX);
  let listener: (() => void) | undefined;
  let client: pg.Client | undefined;
  let closed = false;
  let quiet: NodeJS.Timeout | undefined;
  let owed = false;
  let retry: NodeJS.Timeout | undefined;

  const connect = async (): Promise<void> => {
    const next = new pg.Client({
      connectionString,
      application_name: 'ductile-listen',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
    client = next;
    next.on('notification', () => listener?.());
    next.on('error', () => undefined);
    next.on('end', reconnect);
    try {
      await next.connect();
      await next.query(`listen "${channel}"`);
      // What was said while nobody listened is unknown, so look once.
      listener?.();
    } catch {
      await next.end().catch(() => undefined);
      reconnect();
    }
  };

  const reconnect = (): void => {
    if (closed) return;
    clearTimeout(retry);
    retry = setTimeout(() => void connect(), RECONNECT_MS);
    retry.unref();
  };

  /** The first is sent at once; those that follow soon are one, when some time has passed. */
  const hint = (): void => {
    if (closed) return;
    owed = quiet !== undefined;
    if (owed) return;
    notify(channel).catch(() => undefined);
    quiet = setTimeout(() => {
      quiet = undefined;
      if (owed) hint();
    }, COALESCE_MS);
    quiet.unref();
  };

  return {
    onHint(callback) {
      const isFirst = listener === undefined;
      listener = callback;
      if (isFirst && !closed) void connect();
    },
    hint,
    async close() {
      closed = true;
      clearTimeout(retry);
      clearTimeout(quiet);
      client?.removeAllListeners('end');
      await client?.end().catch(() => undefined);
    },
  };
}
