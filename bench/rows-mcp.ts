import type { Row, Table } from './frame.ts';

export const mcpTable: Table = {
  title: 'Agents: a tool call over HTTP and the same REST call, one connection, SQLite',
  rows: [
    call('31a', 'a job that is accepted, which is committed', 'job'),
    call('31b', 'a dry run of it, which writes nothing', 'dry run'),
  ],
};

function call(id: string, title: string, what: string): Row {
  return {
    id,
    title: `${title}, p50`,
    arms: [`Ductile, MCP, ${what}`],
    base: `Ductile, REST, ${what}`,
    metric: 'p50Ms',
    unit: 'ms',
    goal: 3,
    better: 'lower',
  };
}
