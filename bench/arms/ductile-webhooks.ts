import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';

const sqlite: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, api: true };

export default [
  arm('Ductile, SQLite, webhook, 64 connections', 'ledger'),
  arm('the same server, no ledger, webhook', 'none'),
];

function arm(name: string, store: 'ledger' | 'none'): Arm {
  return {
    name,
    available: async () => await canSetUp(sqlite),
    async run() {
      return await runNode('ductile-webhooks', {
        ...(await setUp(sqlite)),
        connections: 64,
        store,
      });
    },
  };
}
