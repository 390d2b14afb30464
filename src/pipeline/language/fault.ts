import type { HaltReason } from '../run/run.ts';

/** Why a branch cannot go on, found while working out what follows. */
export class PipelineFault extends Error {
  readonly reason: HaltReason;

  constructor(message: string, reason: HaltReason = 'invalid_transition') {
    super(message);
    this.name = 'PipelineFault';
    this.reason = reason;
  }
}
