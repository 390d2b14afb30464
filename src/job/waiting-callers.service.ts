import type { Config } from '../config/config.ts';

interface Lined {
  readonly config: Pick<Config, 'api'>;
}

const waiting = new WeakMap<Lined, number>();

/**
 * A place among those who stay on the line until a job has ended, and how to leave it; undefined when
 * as many wait as may.
 */
export function joinLine(engine: Lined): (() => void) | undefined {
  const count = waiting.get(engine) ?? 0;
  if (count >= engine.config.api.maxConcurrentSync) return undefined;
  waiting.set(engine, count + 1);
  return () => void waiting.set(engine, (waiting.get(engine) ?? 1) - 1);
}
