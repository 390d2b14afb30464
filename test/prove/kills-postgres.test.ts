/**
 * Servers and their spawners are killed at random moments and at named points, and connections are cut, with
 * three hosts on PostgreSQL.
 */
import { campaign } from './support/campaign.ts';
import { tryKills } from './support/kills.ts';

campaign(
  'kills on PostgreSQL: nothing is lost, nothing done twice',
  { trials: 1, timeoutMs: 600_000 },
  (trial) => tryKills(trial, 'postgres', 3),
);
