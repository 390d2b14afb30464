import { isObject } from '../../src/base/json.ts';
import { showEffective } from '../../src/config/effective.ts';
import { listKeys } from '../../src/config/json-schema.ts';
import { meanings } from '../../src/config/meanings.ts';
import { configSchema } from '../../src/config/schema.ts';

export function renderConfig(): string {
  const keys = listKeys();
  const missing = keys.filter((key) => meanings[key] === undefined);
  const dead = Object.keys(meanings).filter((key) => !keys.includes(key));
  if (missing.length + dead.length > 0) {
    const lists = `${missing.join(', ')}; meanings without a key: ${dead.join(', ')}`;
    throw new Error(`keys without a meaning: ${lists}`);
  }
  const defaults = findDefaults();
  const rows = keys.map(
    (key) => `| \`${key}\` | ${showDefault(defaults.get(key))} | ${meanings[key]} |`,
  );
  return `# Configuration

\`config.yaml\` in the configuration directory. Durations are written like \`200ms\`, \`5s\`, \`1h30m\`,
\`30d\`. Relative paths are relative to the directory of the file, \`~/\` is the home directory.
\`\${VAR}\` in a value is replaced by the environment variable, which must be set;
\`\${VAR:-default}\` has a default; \`$\${\` is the text \`\${\` itself. Unknown keys are errors, and all
errors come together, each with file, line, key and advice; the exit code is 78.

| key | default | meaning |
| --- | --- | --- |
${rows.join('\n')}

This page is written by \`tools/generate\` from \`src/config/schema.ts\`.
`;
}

/**
 * Reads defaults from an effective configuration. Defaults that depend on the machine are explained in
 * the meaning.
 */
function findDefaults(): Map<string, string> {
  const parsed = configSchema.parse({ plugin_roots: ['./plugins'], plugins: { name: {} } });
  const effective = showEffective({ plugins: { name: {} } }, parsed);
  const found = new Map<string, string>();
  const visit = (value: unknown, path: string): void => {
    if (isObject(value)) {
      for (const [key, inner] of Object.entries(value)) {
        visit(inner, path === '' ? key : `${path}.${key}`);
      }
    } else if (!Array.isArray(value)) found.set(path.replace('.name.', '.<name>.'), String(value));
  };
  visit(effective, '');
  found.set('service.max_workers', 'cores − 1');
  return found;
}

function showDefault(value: string | undefined): string {
  return value === undefined ? '' : `\`${value}\``;
}
