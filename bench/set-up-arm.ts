import { canSetUp, setUp, type Setup } from './ductile.ts';
import type { Arm } from './frame.ts';
import { runNode, type ProgramOptions } from './program.ts';

/** Program and input of an arm, for a configured service. */
export interface ArmOptions {
  readonly setup: Setup;
  readonly program: string;
  readonly input: object;
  readonly options?: ProgramOptions;
}

export function setUpArm(name: string, { setup, program, input, options }: ArmOptions): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      return await runNode(program, { ...(await setUp(setup)), ...input }, options);
    },
  };
}
