import { monotonicMs } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { PrewarmPool, PrewarmWant } from '../plugin/prewarm.ts';
import type { HeldProcess } from '../plugin/process.ts';

/** What a process is that could wait for the next request; asked for only when one does or shall. */
export type Next = () => Omit<PrewarmWant, 'count'>;

/**
 * Whoever has waited twice within a minute for the answers of a plugin will wait again, so one process
 * of it stands by. It is started when none is under way: among several it would only take the processor
 * from those that somebody waits for.
 */
export interface Standby {
  /** An attempt begins: gives it what stands by. */
  begin(plugin: string, next: Next, isAwaited: boolean): HeldProcess | undefined;
  /** It has ended; without `next`, nothing of its kind is needed any more. */
  end(plugin: string, next: Next | undefined): void;
  /** Nothing that was started before stands by any more. */
  clear(): void;
}

interface Use {
  underWay: number;
  awaitedAt: number;
  /** Until when one stands by; in the past where nobody has waited twice. */
  until: number;
  standsBy: boolean;
  timer: NodeJS.Timeout | undefined;
}

export function makeStandby(pool: Pick<PrewarmPool, 'keep' | 'drop' | 'take'>): Standby {
  const uses = new Map<string, Use>();

  /** One timer for all answers of a plugin: each of them puts the end off. */
  const watch = (plugin: string, use: Use): void => {
    const leftMs = use.until - monotonicMs();
    if (leftMs > 0) {
      use.timer = setTimeout(() => watch(plugin, use), leftMs).unref();
      return;
    }
    Object.assign(use, unused);
    pool.drop(plugin);
  };

  return {
    begin(plugin, next, isAwaited) {
      const use = uses.get(plugin) ?? { underWay: 0, ...unused };
      uses.set(plugin, use);
      use.underWay += 1;
      if (isAwaited) note(use);
      if (!use.standsBy) return undefined;
      use.standsBy = false;
      const want = next();
      const held = pool.take(plugin, want.fingerprint);
      pool.keep(plugin, { ...want, count: 0 });
      return held;
    },
    end(plugin, next) {
      const use = uses.get(plugin);
      if (use === undefined) return;
      use.underWay -= 1;
      if (next === undefined || use.underWay > 0 || monotonicMs() >= use.until) return;
      use.standsBy = true;
      pool.keep(plugin, { ...next(), count: 1 });
      if (use.timer === undefined) watch(plugin, use);
    },
    clear() {
      for (const [plugin, use] of uses) {
        clearTimeout(use.timer);
        if (use.timer !== undefined) pool.drop(plugin);
        Object.assign(use, unused);
      }
    },
  };
}

const unused: Omit<Use, 'underWay'> = {
  awaitedAt: -Infinity,
  until: -Infinity,
  standsBy: false,
  timer: undefined,
};

function note(use: Use): void {
  const now = monotonicMs();
  if (now - use.awaitedAt < limits.standbyMs) use.until = now + limits.standbyMs;
  use.awaitedAt = now;
}
