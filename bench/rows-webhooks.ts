import type { Row, Table } from './frame.ts';

const toAnswer = (connections: number): string =>
  `Ductile, SQLite, webhook to answer, connections: ${connections}`;
const cold = 'Ductile, SQLite, webhook to answer, nothing stands by, connections: 1';
const goWebhook = (connections: number): string => `webhook (Go), connections: ${connections}`;
const bare = (connections: number): string =>
  `the same rows, no engine, connections: ${connections}`;
const noSuch = 'refused: no such webhook';

export const webhookTables: readonly Table[] = [
  {
    title: 'Webhooks: SQLite, on the disk before it is answered, HMAC over 1 KB, 64 connections',
    rows: [
      {
        id: '29a',
        title: 'deliveries that are accepted, which is committed',
        arms: ['Ductile, SQLite, webhook, 64 connections'],
        base: 'the same server, no ledger, webhook',
        metric: 'rate',
        unit: 'deliveries/s',
        goal: 0.65,
        better: 'higher',
      },
      {
        id: '29k',
        title: 'their rows, written by three statements and no ledger (no goal: it bounds 29a)',
        arms: ['the same server, its rows alone, webhook'],
        base: 'the same server, no ledger, webhook',
        metric: 'rate',
        unit: 'deliveries/s',
        better: 'higher',
      },
    ],
  },
  {
    title: 'Webhooks that are refused: what the time of the answer tells (no goal; 1 is nothing)',
    rows: [
      refusal('29b', 'a webhook that is switched off', noSuch),
      refusal(
        '29c',
        'the last character of the proof is wrong',
        'refused: the first character of the proof is wrong',
      ),
    ],
  },
  {
    title:
      'Webhook, HMAC over 1 KB, a process, its answer: SQLite, all on the disk; the others keep nothing',
    rows: [
      answers('29d', '32 connections', toAnswer(32), goWebhook(32), 1),
      answers('29e', '8 connections', toAnswer(8), goWebhook(8), 0.75),
      latency('29f', 'one connection, p50', toAnswer(1), goWebhook(1), 2.2),
      latency('29o', 'one connection, p50, with `prewarm: 0`', cold, goWebhook(1)),
      answers(
        '29g',
        '32 connections (the other verifies nothing)',
        toAnswer(32),
        'Node-RED, exec node, connections: 32',
        3.5,
      ),
      spent('29m', '32 connections, processor time for an answer', toAnswer(32), goWebhook(32)),
    ],
  },
  {
    title:
      'The least that writes the rows of such an answer, in two synced commits (no goal: it bounds the rows above)',
    rows: [
      answers('29h', '32 connections', bare(32), goWebhook(32)),
      answers('29i', '8 connections', bare(8), goWebhook(8)),
      latency('29j', 'one connection, p50', bare(1), goWebhook(1)),
      spent('29n', '32 connections, processor time for an answer', bare(32), goWebhook(32)),
    ],
  },
  {
    title: 'The same answer on a disk that costs nothing (no goal: it bounds 29f)',
    rows: [
      latency(
        '29l',
        'one connection, p50, its ledger in memory',
        'Ductile, SQLite in memory, webhook to answer, connections: 1',
        goWebhook(1),
      ),
    ],
  },
];

function answers(id: string, title: string, arm: string, base: string, goal?: number): Row {
  const how = { metric: 'rate', unit: 'answers/s', better: 'higher' } as const;
  return { id, title, arms: [arm], base, ...how, ...(goal === undefined ? {} : { goal }) };
}

function latency(id: string, title: string, arm: string, base: string, goal?: number): Row {
  const how = { metric: 'p50Ms', unit: 'ms', better: 'lower' } as const;
  return { id, title, arms: [arm], base, ...how, ...(goal === undefined ? {} : { goal }) };
}

/** Row with the CPU time of everything: the processes, the service and the client. It has no goal. */
function spent(id: string, title: string, arm: string, base: string): Row {
  return { ...latency(id, title, arm, base), metric: 'cpuMs' };
}

function refusal(id: string, title: string, base: string): Row {
  return latency(id, title, `refused: ${title}`, base);
}
