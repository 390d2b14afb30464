import { dataLimits } from './limits/data.ts';
import { engineLimits } from './limits/engine.ts';
import { httpLimits } from './limits/http.ts';
import { ledgerLimits } from './limits/ledger.ts';
import { pipelineLimits } from './limits/pipeline.ts';
import { pluginLimits } from './limits/plugin.ts';
import { webhookLimits } from './limits/webhook.ts';

/** Every limit of the product, named once with its unit. Configuration may lower or raise some. */
export const limits = {
  ...dataLimits,
  ...pluginLimits,
  ...engineLimits,
  ...pipelineLimits,
  ...ledgerLimits,
  ...httpLimits,
  ...webhookLimits,
} as const;
