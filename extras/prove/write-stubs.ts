import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { quoteShell } from '../../src/base/text.ts';
import { PRIVATE_DIRECTORY } from '../../src/base/files.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { MANIFEST_FILE, PROTOCOL, type Manifest } from '../../src/plugin/manifest.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { StubResponse } from './stub-responses.ts';
import { rehearsalPaths, type RehearsalSetup } from './isolate-config.ts';
import { stubProgram } from './stub-program.ts';

const ENTRYPOINT = 'run.sh';

/** Writes a stub for each plugin: a manifest, and a program with fixed responses. */
export function writeStubs(
  directory: string,
  plugins: ReadonlyMap<string, Plugin>,
  responses: readonly StubResponse[],
): void {
  const paths = rehearsalPaths(directory);
  mkdirSync(paths.plugins, { recursive: true, mode: PRIVATE_DIRECTORY });
  const setup: RehearsalSetup = { directory, plugins: [...plugins.keys()] };
  writeFileSync(paths.setup, JSON.stringify(setup), { mode: 0o600 });
  writeFileSync(paths.record, '', { mode: 0o600 });
  const bases = Map.groupBy(plugins.values(), ({ manifest }) => manifest.name);
  for (const [name, same] of bases) {
    const [first] = same;
    if (first === undefined) continue;
    const names = new Set(same.map((plugin) => plugin.name));
    const own = responses.filter(({ plugin }) => names.has(plugin));
    writeStub(join(paths.plugins, name), first.manifest, own);
  }
}

function writeStub(
  directory: string,
  manifest: Manifest,
  responses: readonly StubResponse[],
): void {
  mkdirSync(directory, { mode: PRIVATE_DIRECTORY });
  const write = (file: string, text: string): void =>
    writeFileSync(join(directory, file), text, { mode: 0o600 });
  write(MANIFEST_FILE, JSON.stringify(manifestOf(manifest)));
  write('stub.mjs', stubProgram);
  const byCommand = responses.map(({ plugin, command, step, response }) => [
    `${plugin}.${command}${step === undefined ? '' : `@${step}`}`,
    response,
  ]);
  write('responses.json', JSON.stringify(Object.fromEntries(byCommand)));
  const words = [process.execPath, join(directory, 'stub.mjs')].map(quoteShell);
  write(ENTRYPOINT, `#!/bin/sh\nexec ${words.join(' ')}\n`);
  chmodSync(join(directory, ENTRYPOINT), 0o700);
}

/** Returns the manifest of a stub, which needs no configuration. Its file is JSON, which is valid YAML. */
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
