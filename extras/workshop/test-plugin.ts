import { realpathSync } from 'node:fs';
import { DuctileError } from '../../src/base/errors.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { suggest } from '../../src/config/nearest.ts';
import type { Manifest, ManifestCommand } from '../../src/plugin/manifest.ts';
import type { Host } from '../../src/plugin/process.ts';
import { makeBench } from './test-bench.ts';
import type { Bench } from './test-bench.ts';
import { tryCommand } from './check-command.ts';
import { readExamples } from './examples.ts';
import { lookAt } from './check-files.ts';
import type { Finding } from './finding.ts';
import { tryManners } from './check-conventions.ts';

export interface TrialOptions {
  readonly directory: string;
  /** Runs only this command, even if it writes. */
  readonly command?: string | undefined;
  /** Payload for that command. */
  readonly payload?: JsonObject | undefined;
  /** The plugin's configuration. */
  readonly settings?: JsonObject | undefined;
  /** Runs write commands, too. */
  readonly all: boolean;
  readonly host: Host;
  readonly env: Readonly<Record<string, string>>;
}

export interface Trial {
  readonly plugin: string | undefined;
  readonly findings: readonly Finding[];
}

/**
 * Runs a plugin as the runtime would, with valid and invalid requests, and reports its behavior.
 */
export async function tryPlugin(options: TrialOptions): Promise<Trial> {
  const directory = realpathSync(options.directory);
  const looked = await lookAt(directory);
  const { manifest, entrypoint } = looked;
  if (manifest === undefined) return { plugin: undefined, findings: looked.findings };
  const chosen = choose(manifest, options.command);
  const exampleOf = readExamples(directory, manifest, options);
  const { host, env } = options;
  await host.start();
  try {
    const bench = makeBench({ host, manifest, directory, entrypoint, env, exampleOf });
    const tried = await tryCommands(bench, chosen, options);
    const findings = [...looked.findings, ...tried, ...(await tryManners(bench))];
    return { plugin: manifest.name, findings };
  } finally {
    await host.stop();
  }
}

function choose({ commands }: Manifest, wanted: string | undefined): ManifestCommand[] {
  const all = Object.values(commands);
  if (wanted === undefined) return all;
  const found = all.filter(({ name }) => name === wanted);
  if (found.length > 0) return found;
  const hint = suggest(wanted, Object.keys(commands), 'commands');
  throw new DuctileError('INPUT_INVALID', `the plugin has no command ${wanted}`, {
    place: 'command',
    ...(hint === undefined ? {} : { hint }),
  });
}

async function tryCommands(
  bench: Bench,
  chosen: readonly ManifestCommand[],
  { command: named, all }: TrialOptions,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (bench.manifest.commands['health'] === undefined) findings.push(noHealth);
  for (const command of chosen) {
    const { name, type } = command;
    const { config } = bench.exampleOf(name);
    const missing = bench.manifest.configKeys.required.filter((key) => !Object.hasOwn(config, key));
    if (missing.length > 0) {
      findings.push({
        check: 'answer',
        command: name,
        verdict: name === named ? 'failed' : 'skipped',
        seen: `was not run: it needs config.${missing.join(', config.')}`,
        mend: `Give them with --settings, or in examples/${name}.json.`,
      });
    } else if (type === 'write' && !all && name !== named) {
      findings.push({
        check: 'answer',
        command: name,
        verdict: 'skipped',
        seen: 'was not run: it writes',
        mend: `Run it too with --command ${name}, or all with --all.`,
      });
    } else {
      findings.push(...(await tryCommand(bench, command, name === named)));
    }
  }
  return findings;
}

const noHealth: Finding = {
  check: 'health',
  verdict: 'hint',
  seen: 'it has no command health',
  means: '`ductile plugin health` and the dashboard cannot say how it is.',
  mend: 'Declare health (type: read): check the configuration, and answer ok or error.',
};
