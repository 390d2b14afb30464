import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';

const sqlite: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, api: true };
const postgres: Setup = { ...sqlite, ledger: 'postgres' };

export default [
  httpArm('Ductile, SQLite, POST, 64 connections', sqlite, 64, 'ledger'),
  httpArm('the same server, no ledger, POST', sqlite, 64, 'none'),
  httpArm('the same server, commit each, POST', sqlite, 64, 'commit each'),
  httpArm('Ductile, PostgreSQL, POST, 8 connections', postgres, 8, 'ledger'),
];

function httpArm(name: string, setup: Setup, connections: number, store: string): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      return await runNode('ductile-http', { ...(await setUp(setup)), connections, store });
    },
  };
}
