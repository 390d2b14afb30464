import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { quoteShell } from '../../src/base/text.ts';
import { PRIVATE_DIRECTORY } from '../../src/base/files.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { MANIFEST_FILE, PROTOCOL, type Manifest } from '../../src/plugin/manifest.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { StandInAnswer } from './stub-responses.ts';
import { stagePaths, type Stage } from './isolate-config.ts';
import { stubProgram } from './stub-program.ts';

const ENTRYPOINT = 'run.sh';

/** Writes a stand-in for each plugin: a manifest and a program with fixed responses. */
export function buildStage(
  directory: string,
  plugins: ReadonlyMap<string, Plugin>,
  answers: readonly StandInAnswer[],
): void {
  const paths = stagePaths(directory);
  mkdirSync(paths.plugins, { recursive: true, mode: PRIVATE_DIRECTORY });
  const stage: Stage = { directory, plugins: [...plugins.keys()] };
  writeFileSync(paths.stage, JSON.stringify(stage), { mode: 0o600 });
  writeFileSync(paths.record, '', { mode: 0o600 });
  const bases = Map.groupBy(plugins.values(), ({ manifest }) => manifest.name);
  for (const [name, same] of bases) {
    const [first] = same;
    if (first === undefined) continue;
    const names = new Set(same.map((plugin) => plugin.name));
    const own = answers.filter(({ plugin }) => names.has(plugin));
    writeStandIn(join(paths.plugins, name), first.manifest, own);
  }
}

function writeStandIn(
  directory: string,
  manifest: Manifest,
  answers: readonly StandInAnswer[],
): void {
  mkdirSync(directory, { mode: PRIVATE_DIRECTORY });
  const write = (file: string, text: string): void =>
    writeFileSync(join(directory, file), text, { mode: 0o600 });
  write(MANIFEST_FILE, JSON.stringify(manifestOf(manifest)));
  write('stub.mjs', stubProgram);
  const byCommand = answers.map(({ plugin, command, step, response }) => [
    `${plugin}.${command}${step === undefined ? '' : `@${step}`}`,
    response,
  ]);
  write('answers.json', JSON.stringify(Object.fromEntries(byCommand)));
  const words = [process.execPath, join(directory, 'stub.mjs')].map(quoteShell);
  write(ENTRYPOINT, `#!/bin/sh\nexec ${words.join(' ')}\n`);
  chmodSync(join(directory, ENTRYPOINT), 0o700);
}

/** JSON is valid YAML. A stand-in needs no configuration. */
function manifestOf(manifest: Manifest): JsonObject {
  const commands = Object.values(manifest.commands).map(
    ({ name, type, inputSchema, outputSchema, values }) => [
      name,
      {
        type,
        ...(inputSchema === undefined ? {} : { input_schema: inputSchema }),
        ...(outputSchema === undefined ? {} : { output_schema: outputSchema }),
        values,
      },
    ],
  );
  return {
    manifest_spec: 'ductile.plugin',
    manifest_version: 1,
    name: manifest.name,
    version: manifest.version,
    protocol: PROTOCOL,
    entrypoint: ENTRYPOINT,
    concurrency_safe: manifest.concurrencySafe,
    commands: Object.fromEntries(commands) as JsonObject,
    fact_outputs: manifest.factOutputs.map(({ command, factType, compatibilityView }) => ({
      when: { command },
      fact_type: factType,
      compatibility_view: compatibilityView,
    })),
  };
}
