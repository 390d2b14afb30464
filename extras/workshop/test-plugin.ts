import { realpathSync } from 'node:fs';
import { DuctileError } from '../../src/base/errors.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { suggest } from '../../src/base/text.ts';
import type { Manifest, ManifestCommand } from '../../src/plugin/manifest.ts';
import type { Host } from '../../src/plugin/process.ts';
import { makeTestBench, type TestBench } from './test-bench.ts';
import { checkCommand } from './check-command.ts';
import { readExamples } from './examples.ts';
import { checkFiles } from './check-files.ts';
import type { Finding } from './finding.ts';
import { checkConventions } from './check-conventions.ts';

export interface PluginTestOptions {
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

export interface PluginTest {
  readonly plugin: string | undefined;
  readonly findings: readonly Finding[];
}

/**
 * Runs a plugin as the service does, with valid and invalid requests, and reports its behavior.
 */
export async function testPlugin(options: PluginTestOptions): Promise<PluginTest> {
  const directory = realpathSync(options.directory);
  const fileCheck = await checkFiles(directory);
  const { manifest, entrypoint } = fileCheck;
  if (manifest === undefined) return { plugin: undefined, findings: fileCheck.findings };
  const chosen = chooseCommands(manifest, options.command);
  const exampleOf = readExamples(directory, manifest, options);
  const { host, env } = options;
  await host.start();
  try {
    const bench = makeTestBench({ host, manifest, directory, entrypoint, env, exampleOf });
    const commandFindings = await checkCommands(bench, chosen, options);
    const findings = [
      ...fileCheck.findings,
      ...commandFindings,
      ...(await checkConventions(bench)),
    ];
    return { plugin: manifest.name, findings };
  } finally {
    await host.stop();
  }
}

function chooseCommands({ commands }: Manifest, only: string | undefined): ManifestCommand[] {
  const all = Object.values(commands);
  if (only === undefined) return all;
  const found = all.filter(({ name }) => name === only);
  if (found.length > 0) return found;
  const hint = suggest(only, Object.keys(commands), 'commands');
  throw new DuctileError('INPUT_INVALID', `the plugin has no command ${only}`, {
    place: 'command',
    ...(hint === undefined ? {} : { hint }),
  });
}

async function checkCommands(
  bench: TestBench,
  chosen: readonly ManifestCommand[],
  { command: named, all }: PluginTestOptions,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (bench.manifest.commands['health'] === undefined) findings.push(noHealth);
  for (const command of chosen) {
    const { name, type } = command;
    const { config } = bench.exampleOf(name);
    const missing = bench.manifest.configKeys.required.filter((key) => !Object.hasOwn(config, key));
    if (missing.length > 0) {
      findings.push({
        check: 'response',
        command: name,
        verdict: name === named ? 'failed' : 'skipped',
        seen: `was not run: it needs config.${missing.join(', config.')}`,
        mend: `Set them with --settings, or in examples/${name}.json.`,
      });
    } else if (type === 'write' && !all && name !== named) {
      findings.push({
        check: 'response',
        command: name,
        verdict: 'skipped',
        seen: 'was not run: it writes',
        mend: `Run it with --command ${name}, or all commands with --all.`,
      });
    } else {
      findings.push(...(await checkCommand(bench, command, name === named)));
    }
  }
  return findings;
}

const noHealth: Finding = {
  check: 'health',
  verdict: 'hint',
  seen: 'it has no command health',
  means: "`ductile plugin health` and the dashboard can't show its health.",
  mend: 'Declare health (type: read). Check the configuration in it, and return ok or an error.',
};
