/** Checks a plugin's files without running it. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { readDocument } from '../../src/config/document.ts';
import { findMismatch } from '../../src/plugin/payload.ts';
import { MANIFEST_FILE, parseManifest } from '../../src/plugin/manifest.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import { checkTrust } from '../../src/plugin/trust.ts';
import type { Finding } from './finding.ts';

export interface FileCheckResult {
  /** Undefined if the plugin can't be run. */
  readonly manifest: Manifest | undefined;
  /** Absolute path, with all links resolved. */
  readonly entrypoint: string;
  readonly findings: readonly Finding[];
}

export async function checkFiles(directory: string): Promise<FileCheckResult> {
  const document = readDocument(join(directory, MANIFEST_FILE), limits.manifestBytesMax);
  const { manifest, problems } = parseManifest(document);
  const unloaded = 'Ductile does not load the plugin. `ductile plugin list` shows the same reason.';
  if (manifest === undefined) {
    const findings = problems.map(({ place, key, message, hint }): Finding => ({
      check: 'manifest',
      verdict: 'failed',
      seen: `${place}: ${key} ${message}`,
      means: unloaded,
      mend: hint ?? 'Correct it; see docs/plugins/manifest.md.',
    }));
    return { manifest, entrypoint: '', findings };
  }
  const files = { manifest: MANIFEST_FILE, entrypoint: manifest.entrypoint };
  const policy = { allowSymlinks: false, roots: [directory] };
  const { verdict, entrypoint } = checkTrust(directory, directory, files, policy);
  const names = Object.keys(manifest.commands).join(', ');
  const faults = verdict.faults.map(({ message, hint }): Finding => ({
    check: 'trust',
    verdict: 'failed',
    seen: message,
    means: unloaded,
    mend: hint,
  }));
  const trusted: Finding = { check: 'trust', verdict: 'passed', seen: `${entrypoint} can be run` };
  const findings: Finding[] = [
    { check: 'manifest', verdict: 'passed', seen: `${manifest.name} offers ${names}` },
    ...(faults.length === 0 ? [trusted] : faults),
    ...(await checkSchemas(manifest)),
    ...checkWrites(manifest, directory),
  ];
  return { manifest: faults.length === 0 ? manifest : undefined, entrypoint, findings };
}

async function checkSchemas({ commands }: Manifest): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, inputSchema, outputSchema } of Object.values(commands)) {
    const schemas = { input_schema: inputSchema, output_schema: outputSchema };
    for (const [key, schema] of Object.entries(schemas)) {
      if (schema === undefined) continue;
      try {
        await findMismatch(`${key} of ${name}`, schema, {}, 'payload');
      } catch (thrown) {
        const means =
          key === 'input_schema'
            ? 'Ductile accepts no payload for this command.'
            : "Ductile can't use the schema.";
        const mend = 'Write it as JSON Schema 2020-12, or as a map from field to type.';
        const seen = messageOf(thrown);
        findings.push({ check: 'schema', command: name, verdict: 'failed', seen, means, mend });
      }
    }
  }
  return findings;
}

const keyPattern = /idempotency_?key|key_?for\(/i;

/** Advises on write commands: a write that is repeated after a crash should be idempotent. */
function checkWrites({ commands }: Manifest, directory: string): Finding[] {
  const writes = Object.values(commands).filter(({ type }) => type === 'write');
  const undeclared = writes.filter(({ idempotent }) => idempotent === undefined);
  if (undeclared.length === 0 || mentionsKey(directory)) return [];
  return undeclared.map(({ name }) => ({
    check: 'idempotency',
    command: name,
    verdict: 'hint',
    seen: 'it writes, no file uses `idempotency_key`, and the manifest does not set `idempotent`',
    means: 'Ductile repeats the attempt after a crash, so it may write the same data twice.',
    mend:
      'Send `idempotency_key` with each write, ' +
      'or set `idempotent: true` (or false) in the manifest.',
  }));
}

const SEARCHED_BYTES_MAX = 1_000_000;

/** Searches the plugin's own files, but not the copied SDK files. */
function mentionsKey(directory: string): boolean {
  return readdirSync(directory, { withFileTypes: true })
    .filter(
      (entry) => entry.isFile() && !/^ductile.plugin\.|\.(md|json|yaml|awk)$/.test(entry.name),
    )
    .map(({ name }) => join(directory, name))
    .filter((path) => statSync(path).size <= SEARCHED_BYTES_MAX)
    .some((path) => keyPattern.test(readFileSync(path, 'utf8')));
}
