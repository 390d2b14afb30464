import { setImmediate as turn } from 'node:timers/promises';
import { limits } from './limits.ts';

/** Asked for between small pieces of long work: something to wait for when others are to have a turn. */
export type Breath = () => Promise<void> | undefined;

export function makeBreath(): Breath {
  let since = performance.now();
  return () => {
    if (performance.now() - since < limits.sliceMs) return undefined;
    return turn().then(() => void (since = performance.now()));
  };
}
