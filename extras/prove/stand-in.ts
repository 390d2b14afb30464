import { join } from 'node:path';
import type { Config, PluginConfig } from '../../src/config/config.ts';
import { makeRecord } from '../../src/config/freeze.ts';
import type { PipelineEntry, StepEntry } from '../../src/pipeline/language/entry.ts';

/** Whoever waits in a rehearsal for a person, a signal or the clock waits so long. */
export const WAIT_MS = 200;

/** Where a rehearsal takes place. */
export interface Stage {
  readonly directory: string;
  /** The plugins that have a stand-in there. */
  readonly plugins: readonly string[];
}

/** Where the files of a rehearsal are. */
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
 * The configuration as it is, but on the copy of the ledger, with a stand-in for each plugin and
 * nothing that reaches outside. Doing it twice is doing it once.
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

/** What only the real plugin needs is not given to its stand-in, its secrets above all. */
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
