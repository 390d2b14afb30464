import type { Setup } from '../ductile.ts';
import { setUpArm } from '../set-up-arm.ts';

const setup: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, api: true };

export default (['MCP', 'REST'] as const).flatMap((surface) =>
  [false, true].map((isDry) =>
    setUpArm(`Ductile, ${surface}, ${isDry ? 'dry run' : 'job'}`, {
      setup,
      program: 'ductile-mcp',
      input: { surface, isDry },
    }),
  ),
);
