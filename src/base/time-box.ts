import { createContext, Script } from 'node:vm';

const slot: { work: () => unknown } = { work: () => undefined };
let runner: ((options: { timeout: number }) => unknown) | undefined;

/** Runs it to its end or stops it, even inside a regular expression; then it throws. */
export function withinTime<T>(ms: number, work: () => T): T {
  if (runner === undefined) {
    const context = createContext(slot);
    const script = new Script('work()');
    runner = (options) => script.runInContext(context, options) as unknown;
  }
  slot.work = work;
  return runner({ timeout: ms }) as T;
}
