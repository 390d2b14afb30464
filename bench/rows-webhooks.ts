import type { Row, Table } from './frame.ts';

const toAnswer = (connections: number): string =>
  `Ductile, SQLite, webhook to answer, connections: ${connections}`;
const goWebhook = (connections: number): string => `webhook (Go), connections: ${connections}`;
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
      {
        id: '29f',
        title: 'one connection, p50',
        arms: [toAnswer(1)],
        base: goWebhook(1),
        metric: 'p50Ms',
        unit: 'ms',
        goal: 2.2,
        better: 'lower',
      },
      answers(
        '29g',
        '32 connections (the other verifies nothing)',
        toAnswer(32),
        'Node-RED, exec node, connections: 32',
        3.5,
      ),
    ],
  },
];

function answers(id: string, title: string, arm: string, base: string, goal: number): Row {
  const how = { metric: 'rate', unit: 'answers/s', better: 'higher' } as const;
  return { id, title, arms: [arm], base, goal, ...how };
}

function refusal(id: string, title: string, base: string): Row {
  const how = { metric: 'p50Ms', unit: 'ms', better: 'lower' } as const;
  return { id, title, arms: [`refused: ${title}`], base, ...how };
}
