import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { call, Refusal } from '../api/client.ts';
import { onEvents } from '../api/live.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { makeReloadPace } from './reload-pace.ts';

export interface CallState<T> {
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

interface StoredResult<T> {
  readonly key: string;
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
}

const nothing = { key: '', data: undefined, error: undefined };

/**
 * Calls an operation, and calls it again when its input changes and after events of these kinds. The
 * previous result is shown until the next one arrives, so that the page doesn't flicker.
 */
export function useCall<N extends Name>(
  name: N,
  input: Input<N> | undefined,
  kinds: readonly string[] = [],
): CallState<Output<N>> {
  const key = input === undefined ? '' : `${name} ${JSON.stringify(input)}`;
  const [stored, setStored] = useState<StoredResult<Output<N>>>(nothing);
  const current = useRef<AbortController>(undefined);
  const isBusy = useRef(false);
  const load = useCallback(async () => {
    if (input === undefined) return;
    current.current?.abort();
    const own = new AbortController();
    current.current = own;
    isBusy.current = true;
    try {
      const data = await call(name, input, { signal: own.signal });
      if (!own.signal.aborted) setStored({ key, data, error: undefined });
    } catch (thrown) {
      if (own.signal.aborted) return;
      const error = thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
      setStored((before) => ({ key, data: before.key === key ? before.data : undefined, error }));
    } finally {
      if (current.current === own) isBusy.current = false;
    }
  }, [key]);
  useEffect(() => {
    void load();
    return () => current.current?.abort();
  }, [load]);
  const kindsKey = kinds.join(' ');
  useEffect(() => {
    if (kinds.length === 0) return undefined;
    const pace = makeReloadPace(() => {
      // A hidden page doesn't reload, and neither does one whose last call is still pending.
      if (isBusy.current || document.hidden) return false;
      void load();
      return true;
    });
    const stop = onEvents((types) => {
      const isRelevant = [...types.keys()].some(
        (type) => type === '*' || kinds.some((kind) => type.startsWith(kind)),
      );
      if (isRelevant) pace.request();
    });
    return () => {
      stop();
      pace.stop();
    };
  }, [load, kindsKey]);
  const isStale = stored.key !== key;
  return {
    data: isStale && stored.key.split(' ')[0] !== name ? undefined : stored.data,
    error: isStale ? undefined : stored.error,
    isLoading: isStale,
    reload: () => void load(),
  };
}
