import { createHash } from 'node:crypto';
import { strictSection, nonBlankText } from '../base/fields.ts';
import {
  toCanonicalJson,
  isObject,
  type JsonObject,
  deepFreeze,
  makeRecord,
} from '../base/json.ts';
import type { Provides } from '../package/package.ts';
import { toPipelineEntry } from '../pipeline/language/entry.ts';
import { readField } from '../pipeline/language/entry-fields.ts';
import { pipelineSchema } from '../pipeline/language/entry-schema.ts';
import { parseTemplate } from '../pipeline/language/template.ts';
import { secretKeys, packagedWebhookSchema } from '../webhook/webhook.ts';
import { buildPlugin, buildRoute } from './build.ts';
import type { Config } from './config.ts';
import { keyText, type KeyPath } from './document.ts';
import { redact } from './effective.ts';
import { pluginName } from './fields.ts';
import { describeIssues } from './issues.ts';
import { configInvalid, makeProblem, type Problem } from './problem.ts';
import { pluginSchema, routeSchema } from './schema.ts';
import * as z from 'zod';

/** The definitions of an installation, in the format of the configuration file. */
export interface InstalledPackage {
  readonly id: string;
  readonly slug: string;
  readonly version: string;
  readonly provides: Provides;
}

/** The installations that a configuration includes and those that were refused. */
export interface InstalledState {
  /** The version of all installations of the ledger. */
  readonly version: number;
  readonly refused: readonly RefusedInstallation[];
}

export interface RefusedInstallation {
  readonly id: string;
  readonly slug: string;
  readonly reason: string;
}

/**
 * Adds the definitions of installations to those of the files, with the same schemas. Throws
 * CONFIG_INVALID for problems of an installation, including names that exist already.
 */
export function withInstallations(base: Config, installed: readonly InstalledPackage[]): Config {
  if (installed.length === 0) return base;
  let config = base;
  const problems: Problem[] = [];
  for (const one of installed) {
    const read = readInstallation(one);
    const found = [...read.problems, ...findCollisions(config, one)];
    if (read.parsed === undefined || found.length > 0) problems.push(...found);
    else config = extend(config, one, read.parsed);
  }
  if (problems.length > 0) throw configInvalid(problems);
  const text = toCanonicalJson([base.fingerprint, installed]);
  const fingerprint = createHash('sha256').update(text).digest('hex');
  return deepFreeze({ ...config, fingerprint, redacted: showAll(base, installed) });
}

export function describeInstallation({
  slug,
  version,
}: Pick<InstalledPackage, 'slug' | 'version'>): string {
  return `installation ${slug}@${version}`;
}

const template = readField((value) => {
  const parsed = parseTemplate(value, ['payload']);
  return parsed.ok ? { value: parsed.template } : parsed;
});

export const handlerSchema = strictSection({
  on: nonBlankText(),
  from: nonBlankText().optional(),
  directive: z.string().regex(/^[a-z]+\.[a-z_]+$/, 'must be the type of a directive'),
  params: template.default({ value: {} }),
});

const schema = strictSection({
  plugins: z.record(pluginName(), pluginSchema),
  routes: z.array(routeSchema),
  pipelines: z.array(pipelineSchema),
  handlers: z.array(handlerSchema),
  webhooks: z.array(packagedWebhookSchema),
});

type ParsedInstallation = z.output<typeof schema>;

/** Parses one installation and lists its problems. */
export function readInstallation(one: InstalledPackage): {
  readonly parsed: ParsedInstallation | undefined;
  readonly problems: readonly Problem[];
} {
  const place = describeInstallation(one);
  const { provides } = one;
  const parsed = schema.safeParse(provides);
  const problems = [...findReserved(provides, place), ...findSecrets(provides, place)];
  if (parsed.success) return { parsed: parsed.data, problems };
  const document = { value: provides, problems: [], placeOf: () => place };
  return {
    parsed: undefined,
    problems: [...problems, ...describeIssues(parsed.error.issues, schema, document)],
  };
}

/**
 * Finds keys that packages may not set. Definitions of a package belong to one ledger, so they
 * can't be shared. The operator grants rights, never the package.
 */
function findReserved({ plugins, routes, pipelines }: Provides, place: string): Problem[] {
  const entries: (readonly [KeyPath, unknown])[] = [
    ...Object.entries(plugins).map(([name, entry]) => [['plugins', name], entry] as const),
    ...routes.map((entry, index) => [['routes', index], entry] as const),
    ...pipelines.map((entry, index) => [['pipelines', index], entry] as const),
  ];
  return entries.flatMap(([path, entry]) =>
    Object.entries(reserved)
      .filter(([key]) => isObject(entry) && Object.hasOwn(entry, key))
      .map(([key, why]) => {
        const message = `is only for the configuration files: ${why}`;
        return makeProblem(place, keyText([...path, key]), message, 'Remove it.');
      }),
  );
}

const reserved: Readonly<Record<string, string>> = {
  shared: 'the content of a package belongs to one ledger',
  api_access: 'a package cannot grant itself rights',
  limits: 'a package cannot choose its own limits',
  isolation: 'a package cannot choose how its processes are confined',
};

/** Finds secrets in a package: everyone who has the package could read them. */
function findSecrets({ webhooks }: Provides, place: string): Problem[] {
  return webhooks.flatMap((entry, index) =>
    secretKeys
      .filter((key) => Object.hasOwn(entry, key))
      .map((key) => {
        const hint = 'Remove it. Ductile generates one, or uses the credential in `credential`.';
        const message = 'is a secret, which a package must not contain';
        return makeProblem(place, keyText(['webhooks', index, key]), message, hint);
      }),
  );
}

function findCollisions({ plugins, pipelines }: Config, one: InstalledPackage): Problem[] {
  const place = describeInstallation(one);
  const problems: Problem[] = [];
  for (const name of Object.keys(one.provides.plugins)) {
    const other = plugins[name];
    if (other === undefined) continue;
    problems.push(makeProblem(place, keyText(['plugins', name]), takenBy(other.place)));
  }
  for (const [index, { name }] of one.provides.pipelines.entries()) {
    const other = pipelines.find((pipeline) => pipeline.name === name);
    if (other === undefined) continue;
    const key = keyText(['pipelines', index, 'name']);
    problems.push(makeProblem(place, key, takenBy(other.locate([]).place)));
  }
  return problems;
}

function takenBy(place: string): string {
  return `is already used (${place})`;
}

function extend(config: Config, one: InstalledPackage, parsed: ParsedInstallation): Config {
  const place = describeInstallation(one);
  const { id, slug, version } = one;
  const plugins = Object.entries(parsed.plugins).map(
    ([name, plugin]) => [name, buildPlugin(plugin, place)] as const,
  );
  return {
    ...config,
    plugins: makeRecord([...Object.entries(config.plugins), ...plugins]),
    routes: [...config.routes, ...parsed.routes.map((route) => buildRoute(route, place))],
    pipelines: [
      ...config.pipelines,
      ...parsed.pipelines.map((pipeline, index) =>
        toPipelineEntry(pipeline, (below) => ({
          place,
          key: keyText(['pipelines', index, ...below]),
        })),
      ),
    ],
    handlers: [
      ...config.handlers,
      ...parsed.handlers.map((handler, index) => ({
        name: `${slug}/${index + 1}`,
        on: handler.on,
        from: handler.from,
        directive: handler.directive,
        params: handler.params,
        installation: { id, slug, version },
        place,
      })),
    ],
  };
}

function showAll({ redacted }: Config, installed: readonly InstalledPackage[]): JsonObject {
  const shown = installed.map(({ provides }) => redact(provides) as JsonObject);
  const listOf = (key: string) => [redacted, ...shown].flatMap((one) => one[key] ?? []);
  const plugins = [redacted, ...shown].map((one) => one['plugins'] ?? {});
  return {
    ...redacted,
    plugins: Object.assign({}, ...plugins) as JsonObject,
    routes: listOf('routes'),
    pipelines: listOf('pipelines'),
    handlers: listOf('handlers'),
  };
}
