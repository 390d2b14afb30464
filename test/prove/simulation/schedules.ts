/** I9: each due time of a schedule fires once, on any host. */
import type { Accuse } from './checker.ts';
import type { Change } from './rows.ts';
import { everyMs } from './world-setup.ts';

interface FiringRecord {
  readonly slots: Set<string>;
  firstMs: number;
  lastMs: number;
}

export class ScheduleBook {
  readonly fired = new Map<string, FiringRecord>();
  readonly #accuse: Accuse;

  constructor(accuse: Accuse) {
    this.#accuse = accuse;
  }

  saw({ table, before, after }: Change, nowMs: number): void {
    const id = after?.['schedule_id'];
    if (table !== 'job_queue' || before !== undefined || id === null || id === undefined) return;
    const name = String(id);
    const slot = String(after?.['schedule_slot']);
    const known = this.fired.get(name);
    if (known === undefined) {
      this.fired.set(name, { slots: new Set([slot]), firstMs: nowMs, lastMs: nowMs });
      return;
    }
    if (known.slots.has(slot)) this.#accuse('I9', `the slot ${slot} of ${name} was fired twice`);
    known.slots.add(slot);
    const every = everyMs[name as keyof typeof everyMs];
    const most = Math.floor((nowMs - known.firstMs) / every) + 1;
    if (known.slots.size > most) {
      this.#accuse('I9', `${name} was fired ${known.slots.size} times where ${most} were due`);
    }
    known.lastMs = nowMs;
  }
}
