import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { call, Refusal } from '../api/client.ts';
import { onBeat } from '../api/live.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { makePace } from './reload-pace.ts';

export interface Called<T> {
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

interface Held<T> {
  readonly key: string;
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
}

const nothing = { key: '', data: undefined, error: undefined };

/**
 * What an operation answers, asked again when its input changes and when events of these kinds have
 * come. What was there stays until the next answer is, so that nothing flickers.
 */
export function useCall<N extends Name>(
  name: N,
  input: Input<N> | undefined,
  kinds: readonly string[] = [],
): Called<Output<N>> {
  const key = input === undefined ? '' : `${name} ${JSON.stringify(input)}`;
  const [held, setHeld] = useState<Held<Output<N>>>(nothing);
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
      if (!own.signal.aborted) setHeld({ key, data, error: undefined });
    } catch (thrown) {
      if (own.signal.aborted) return;
      const error = thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
      setHeld((before) => ({ key, data: before.key === key ? before.data : undefined, error }));
    } finally {
      if (current.current === own) isBusy.current = false;
    }
  }, [key]);
  useEffect(() => {
    void load();
    return () => current.current?.abort();
  }, [load]);
  const wanted = kinds.join(' ');
  useEffect(() => {
    if (kinds.length === 0) return undefined;
    const pace = makePace(() => {
      // A page that nobody looks at, or whose last question is still open, does not ask again.
      if (isBusy.current || document.hidden) return false;
      void load();
      return true;
    });
    const stop = onBeat((types) => {
      const isMeant = [...types.keys()].some(
        (type) => type === '*' || kinds.some((kind) => type.startsWith(kind)),
      );
      if (isMeant) pace.ask();
    });
    return () => {
      stop();
      pace.stop();
    };
  }, [load, wanted]);
  const isStale = held.key !== key;
  return {
    data: isStale && held.key.split(' ')[0] !== name ? undefined : held.data,
    error: isStale ? undefined : held.error,
    isLoading: isStale,
    reload: () => void load(),
  };
}
