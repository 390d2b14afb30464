import type { Table } from './frame.ts';

export const webhookTable: Table = {
  title: 'Webhooks: SQLite at synchronous=FULL, HMAC over 1 KB, 64 connections',
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
};
