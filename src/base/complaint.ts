import { messageOf } from './errors.ts';
import { limits } from './limits.ts';
import type { LogFields } from './log.ts';

export interface Complaint {
  /** It went wrong, perhaps once more. */
  about(error: unknown, fields?: LogFields): void;
  /** It went well: the next failure is news again. */
  over(): void;
}

/**
 * For what is tried again and again. The same failure is told when it begins, and then once in a while
 * with how often it was seen: an outage of hours must not push out of the log what led to it.
 */
export function makeComplaint(tell: (fields: LogFields) => void): Complaint {
  let told: { readonly error: string; readonly atMs: number } | undefined;
  let unsaid = 0;
  return {
    about(thrown, fields = {}) {
      const error = messageOf(thrown);
      const isSame = told?.error === error;
      if (isSame && performance.now() - (told?.atMs ?? 0) < limits.complaintMs) {
        unsaid += 1;
        return;
      }
      tell({ error, ...fields, ...(isSame ? { repeated: unsaid } : {}) });
      told = { error, atMs: performance.now() };
      unsaid = 0;
    },
    over() {
      told = undefined;
      unsaid = 0;
    },
  };
}
