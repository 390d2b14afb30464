import { join } from 'node:path';
import type { Config, PluginConfig } from '../../src/config/config.ts';
import { makeRecord } from '../../src/config/freeze.ts';
import type { PipelineEntry, StepEntry } from '../../src/pipeline/language/entry.ts';

/** Waits for people, signals or times take this long in a rehearsal. */
export const WAIT_MS = 200;

/** Directory of a rehearsal. */
export interface Stage {
  readonly directory: string;
  /** Plugins that have a stand-in. */
  readonly plugins: readonly string[];
}

/** Returns the paths of a rehearsal. */
export function stagePaths(directory: string) {
  return {
    state: join(directory, 'state'),
    ledger: join(directory, 'state', 'ledger.db'),
    plugins: join(directory, 'plugins'),
    stage: join(directory, 'stage.json'),
    record: join(directory, 'record.jsonl'),
  };
}

/**
 * Changes the configuration to use the copied ledger and stand-ins, with no outside effects.
 * Applying it twice has no further effect.
 */
export function standIn(config: Config, { directory, plugins }: Stage): Config {
  const paths = stagePaths(directory);
  const known = new Set(plugins);
  const settle = (name: string, settings: PluginConfig): PluginConfig => ({
    ...quiet(settings),
    enabled: settings.enabled && known.has(name),
  });
  const entries = Object.entries(config.plugins);
  return {
    ...config,
    state: { kind: 'sqlite', path: paths.ledger, dir: paths.state },
    service: {
      ...config.service,
      allowSymlinks: true,
      pluginEnvPassthrough: [],
      admission: {
        verifyIntegrityOnBoot: false,
        failOnDrift: false,
        validateConfigOnBoot: false,
        requireApiAuth: false,
      },
    },
    pluginRoots: [{ path: paths.plugins, place: 'the rehearsal' }],
    plugins: makeRecord(entries.map(([name, settings]) => [name, settle(name, settings)])),
    pluginDefaults: quiet(config.pluginDefaults),
    pipelines: config.pipelines.map(hurry),
    handlers: [],
    directives: { approval: {} },
    api: { ...config.api, enabled: false },
    webhooks: { ...config.webhooks, enabled: false, endpoints: [] },
    telemetry: { ...config.telemetry, otlp: undefined },
  };
}

/** Removes everything that only the real plugin needs, above all secrets. */
function quiet(settings: PluginConfig): PluginConfig {
  const { retry } = settings;
  return {
    ...settings,
    config: {},
    schedules: [],
    prewarm: 0,
    apiAccess: undefined,
    retry: { ...retry, backoffBaseMs: Math.min(retry.backoffBaseMs, WAIT_MS) },
  };
}

function hurry(pipeline: PipelineEntry): PipelineEntry {
  return { ...pipeline, steps: hurrySteps(pipeline.steps) };
}

function hurrySteps(steps: readonly StepEntry[]): StepEntry[] {
  return steps.map(hurryStep);
}

function hurryStep(step: StepEntry): StepEntry {
  switch (step.mode) {
    case 'uses': {
      const { backoffBaseMs } = step;
      if (backoffBaseMs === undefined) return step;
      return { ...step, backoffBaseMs: Math.min(backoffBaseMs, WAIT_MS) };
    }
    case 'approve':
      return { ...step, timeoutMs: WAIT_MS, onTimeout: 'approve' };
    case 'wait':
      return { ...step, delayMs: WAIT_MS, until: undefined, signal: undefined };
    case 'split':
      return { ...step, split: hurrySteps(step.split) };
    case 'steps':
    case 'foreach':
      return { ...step, steps: hurrySteps(step.steps) };
    case 'switch':
      return {
        ...step,
        cases: step.cases.map((one) => ({ ...one, steps: hurrySteps(one.steps) })),
        otherwise: step.otherwise && hurrySteps(step.otherwise),
      };
    default:
      return step;
  }
}
