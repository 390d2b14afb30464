import pg from 'pg';

const COALESCE_MS = 20;
const RECONNECT_MS = 1000;

export interface Notifier {
  onHint(listener: () => void): void;
  hint(): void;
  close(): Promise<void>;
}

/**
 * Hints between hosts over LISTEN/NOTIFY. A hint is sent outside of every job's own commit, at most
 * one in a while, and may be lost at any time: looking is the truth, this only makes it sooner.
 */
export function makeNotifier(pool: pg.Pool, connectionString: string, schema: string): Notifier {
  const channel = `ductile_${schema}`;
  let listener: (() => void) | undefined;
  let client: pg.Client | undefined;
  let closed = false;
  let sending: NodeJS.Timeout | undefined;
  let retry: NodeJS.Timeout | undefined;

  const connect = async (): Promise<void> => {
    const next = new pg.Client({ connectionString, application_name: 'ductile-listen', keepAlive: true });
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

  return {
    onHint(callback) {
      listener = callback;
      void connect();
    },
    hint() {
      if (closed || sending !== undefined) return;
      sending = setTimeout(() => {
        sending = undefined;
        pool.query('select pg_notify($1, $2)', [channel, '']).catch(() => undefined);
      }, COALESCE_MS);
      sending.unref();
    },
    async close() {
      closed = true;
      clearTimeout(retry);
      clearTimeout(sending);
      client?.removeAllListeners('end');
      await client?.end().catch(() => undefined);
    },
  };
}
