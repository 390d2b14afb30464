/** The server and its spawner are killed at random moments and at named points, on SQLite. */
import { campaign } from './support/campaign.ts';
import { tryKills } from './support/kills.ts';

campaign(
  'kills on SQLite: nothing is lost, nothing done twice',
  { trials: 2, timeoutMs: 600_000 },
  (trial) => tryKills(trial, 'sqlite', 1),
);
