import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { formatDuration } from '../../src/config/duration.ts';
import { configSchema } from '../../src/config/schema.ts';

/** What each key means. The generator fails when this list and the schema do not agree. */
const meanings: Readonly<Record<string, string>> = {
  'service.name': 'what this installation calls itself',
  'service.log_level': '`debug`, `info`, `warn` or `error`',
  'service.log_format': '`json`, `text`, or `auto`: text on a terminal, JSON elsewhere',
  'service.max_workers': 'jobs that this process runs at once; one less than the cores unless set',
  'service.dedupe_ttl': 'how long a succeeded job keeps its dedupe key',
  'service.job_queue_retention': 'how long finished jobs are kept; not less than `dedupe_ttl`',
  'service.job_log_retention': 'how long their attempts are kept',
  'service.signal_retention': 'how long signals are kept',
  'service.fact_retention': "how long facts are kept; a plugin's latest one always is",
  'service.context_retention': 'how long contexts are kept that no job refers to',
  'service.allow_symlinks': 'whether plugins may be reached through symbolic links',
  'service.plugin_env_passthrough':
    'names of environment variables that plugins get besides the usual ones',
  'service.shutdown_timeout': 'what running attempts get when the process stops',
  'service.heartbeat_interval': 'how often a process says that it lives',
  'service.reap_after': 'silence after which a process is presumed dead; at least three heartbeats',
  'service.poll_interval': 'how often work is looked for without a hint',
  'service.max_crashes': 'crashes of the engine charged to one job before it is dead',
  'service.max_hops': 'signals in a chain before it counts as a loop',
  'service.runner_grace':
    'how long a job waits for a process that knows its plugin before it is dead',
  'service.spawner': '`native`, `node`, or `auto`: native where it is there',
  'state.path': 'the SQLite file; its directory also holds the lock and the control socket',
  'state.url': 'a PostgreSQL server instead; the parameter `schema` names the schema',
  'state.schema': 'the PostgreSQL schema, if not in the URL; `ductile` unless set',
  'state.dir': 'with `state.url`: the directory of the control socket; `./data` unless set',
  database: 'another name for `state`',
  plugin_roots: 'directories that are searched for plugins, in order; required',
  'plugins.<name>.enabled': 'whether it is loaded',
  'plugins.<name>.uses':
    'the plugin whose code runs under this name, with config and state of its own',
  'plugins.<name>.config': 'what the plugin gets as `config`; `${VAR}` is replaced in texts',
  'plugins.<name>.retry.max_attempts': 'failures before the job is given up',
  'plugins.<name>.retry.backoff_base': 'the delay before the second try; it doubles each time',
  'plugins.<name>.timeouts': 'by command; poll 60s, handle 120s, health 10s, init 30s, others 60s',
  'plugins.<name>.parallelism':
    'jobs of it at once over all processes; no limit unless set, or 1 when the manifest says so',
  'plugins.<name>.prewarm': 'processes that wait ahead of their request; the manifest must consent',
  'routes[].from': 'only events of this plugin',
  'routes[].event_type': 'the exact type; required',
  'routes[].to': 'a plugin, or `plugin.command`; required',
  'routes[].command': 'the command, `handle` unless set',
  'api.enabled': 'whether `/healthz` is answered on `listen`',
  'api.listen': 'address and port',
};

export function renderConfig(): string {
  const keys = keysOf(configSchema, '');
  const missing = keys.filter((key) => meanings[key] === undefined);
  const dead = Object.keys(meanings).filter((key) => !keys.includes(key));
  if (missing.length + dead.length > 0) {
    const lists = `${missing.join(', ')}; meanings without a key: ${dead.join(', ')}`;
    throw new Error(`keys without a meaning: ${lists}`);
  }
  const defaults = findDefaults();
  const rows = keys.map((key) => `| \`${key}\` | ${defaults.get(key) ?? ''} | ${meanings[key]} |`);
  return `# Configuration

\`config.yaml\` in the configuration directory. Durations are written like \`200ms\`, \`5s\`, \`1h30m\`,
\`30d\`. Relative paths are relative to the directory of the file, \`~/\` is the home directory.
\`\${VAR}\` inside a text is replaced by the environment variable, which must be set; \`$\${VAR}\` is the
text itself. Unknown keys are errors, and all errors come together, each with file, line, key and
advice; the exit code is 78.

| key | default | meaning |
| --- | --- | --- |
${rows.join('\n')}

This page is written by \`tools/generate\` from \`src/config/schema.ts\`.
`;
}

/** Dotted keys of all leaves; \`<name>\` stands for any name, \`[]\` for any element. */
function keysOf(schema: z.core.$ZodType, path: string): string[] {
  const type = unwrap(schema);
  if (type instanceof z.ZodObject) {
    return Object.entries(type.shape).flatMap(([key, inner]) =>
      key === 'database'
        ? [key]
        : keysOf(inner as z.core.$ZodType, path === '' ? key : `${path}.${key}`),
    );
  }
  if (path === 'plugins' && type instanceof z.ZodRecord)
    return keysOf(type.valueType, `${path}.<name>`);
  if (path === 'routes' && type instanceof z.ZodArray) return keysOf(type.element, `${path}[]`);
  return [path];
}

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  const def = (schema as unknown as { readonly def: Wrapping }).def;
  if (def.type === 'pipe' && def.out !== undefined && isTransform(def.in)) return unwrap(def.out);
  return def.innerType === undefined ? schema : unwrap(def.innerType);
}

interface Wrapping {
  readonly type: string;
  readonly innerType?: z.core.$ZodType;
  readonly in?: z.core.$ZodType;
  readonly out?: z.core.$ZodType;
}

function isTransform(schema: z.core.$ZodType | undefined): boolean {
  return schema instanceof z.ZodTransform;
}

function findDefaults(): Map<string, string> {
  const parsed = configSchema.parse({ plugin_roots: ['./plugins'], plugins: { name: {} } });
  const found = new Map<string, string>();
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      found.set(path, show(path, value));
      return;
    }
    for (const [key, inner] of Object.entries(value))
      visit(inner, path === '' ? key : `${path}.${key}`);
  };
  visit({ ...parsed, plugins: { '<name>': parsed.plugins['name'] } }, '');
  found.delete('plugin_roots');
  return found;
}

const durations = /(ttl|retention|timeout|interval|after|grace|base)$/;

function show(path: string, value: unknown): string {
  if (path === 'service.max_workers') return availableParallelism() > 0 ? 'cores − 1' : '';
  if (typeof value === 'number' && durations.test(path)) return `\`${formatDuration(value)}\``;
  return Array.isArray(value) ? '' : `\`${String(value)}\``;
}
