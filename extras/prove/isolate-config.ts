import { join } from 'node:path';
import type { Config, PluginConfig } from '../../src/config/config.ts';
import { makeRecord } from '../../src/base/json.ts';
import type { PipelineEntry, StepEntry } from '../../src/pipeline/language/entry.ts';

/** Duration of every wait for a person, a signal or a time in a rehearsal. */
export const WAIT_MS = 200;

/** Description of a rehearsal, which its service reads from a file. */
export interface RehearsalSetup {
  readonly directory: string;
  /** Plugins that have a stub. */
  readonly plugins: readonly string[];
}

export function rehearsalPaths(directory: string) {
  return {
    state: join(directory, 'state'),
    ledger: join(directory, 'state', 'ledger.db'),
    plugins: join(directory, 'plugins'),
    setup: join(directory, 'setup.json'),
    record: join(directory, 'record.jsonl'),
  };
}

/**
 * Changes the configuration to use the copied ledger and the stubs, without outside effects. This is
 * idempotent.
 */
export function isolateConfig(config: Config, { directory, plugins }: RehearsalSetup): Config {
  const paths = rehearsalPaths(directory);
  const known = new Set(plugins);
  const isolatePlugin = (name: string, settings: PluginConfig): PluginConfig => ({
    ...removeSecrets(settings),
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
    plugins: makeRecord(entries.map(([name, settings]) => [name, isolatePlugin(name, settings)])),
    pluginDefaults: removeSecrets(config.pluginDefaults),
    pipelines: config.pipelines.map(shortenWaits),
    handlers: [],
    directives: { approval: {} },
    api: { ...config.api, enabled: false },
    webhooks: { ...config.webhooks, enabled: false, endpoints: [] },
    telemetry: { ...config.telemetry, otlp: undefined },
  };
}

/** Removes everything that only the real plugin needs, in particular secrets. */
function removeSecrets(settings: PluginConfig): PluginConfig {
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

function shortenWaits(pipeline: PipelineEntry): PipelineEntry {
  return { ...pipeline, steps: shortenSteps(pipeline.steps) };
}

function shortenSteps(steps: readonly StepEntry[]): StepEntry[] {
  return steps.map(shortenStep);
}

function shortenStep(step: StepEntry): StepEntry {
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
      return { ...step, split: shortenSteps(step.split) };
    case 'steps':
    case 'foreach':
      return { ...step, steps: shortenSteps(step.steps) };
    case 'switch':
      return {
        ...step,
        cases: step.cases.map((branch) => ({ ...branch, steps: shortenSteps(branch.steps) })),
        otherwise: step.otherwise && shortenSteps(step.otherwise),
      };
    default:
      return step;
  }
}
