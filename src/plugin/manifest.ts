import * as z from 'zod';
import { type JsonObject, isObject, deepFreeze, makeRecord } from '../base/json.ts';
import { type Document, type KeyPath, keyText } from '../config/document.ts';
import { count, flag, strictSection, nonBlankText } from '../base/fields.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../base/text.ts';
import { makeProblem, sortProblems, type Problem } from '../config/problem.ts';
import { refuseEntrypointText } from './trust.ts';

export const PROTOCOL = 2;
export const MANIFEST_FILE = 'manifest.yaml';

/** The content of `manifest.yaml`. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly protocol: typeof PROTOCOL;
  /** Relative to the plugin's directory. */
  readonly entrypoint: string;
  readonly description: string | undefined;
  /** True if several jobs of this plugin may run at the same time. */
  readonly concurrencySafe: boolean;
  /** True if a process may start before its request. */
  readonly prewarm: boolean;
  /** By name; the record has no prototype. */
  readonly commands: Readonly<Record<string, ManifestCommand>>;
  readonly factOutputs: readonly FactOutput[];
  readonly configKeys: {
    readonly required: readonly string[];
    readonly optional: readonly string[];
    /**
     * Keys that give access to programs, files or networks. Packages can't set them themselves,
     * tenants never.
     */
    readonly operator: readonly string[];
    /** Keys whose text may contain `{{field}}` for members of the payload. */
    readonly templates: readonly string[];
  };
  readonly stopwatch: { readonly maxSubs: number };
}

export interface ManifestCommand {
  readonly name: string;
  readonly type: 'read' | 'write';
  readonly description: string | undefined;
  /** JSON Schema; the compact form is already expanded. */
  readonly inputSchema: Readonly<JsonObject> | undefined;
  readonly outputSchema: Readonly<JsonObject> | undefined;
  readonly idempotent: boolean | undefined;
  readonly retrySafe: boolean | undefined;
  readonly values: CommandValues;
}

/** The values that a command reads from its payload and puts into its events. */
interface CommandValues {
  readonly consume: readonly string[];
  readonly emit: readonly { readonly event: string; readonly values: readonly string[] }[];
}

/** Rules that turn snapshots into facts. */
export interface FactOutput {
  readonly command: string;
  readonly factType: string;
  /** By default a fact is also in the state, because plugins that declare a fact expect to read it there. */
  readonly compatibilityView: '' | 'mirror_object';
}

interface ParsedManifest {
  readonly manifest: Manifest | undefined;
  readonly problems: readonly Problem[];
}

export function parseManifest(document: Document): ParsedManifest {
  if (document.problems.length > 0) return { manifest: undefined, problems: document.problems };
  const value = nameCommands(document.value);
  const schema = isListForm(document.value) ? listManifest : pluginManifestSchema;
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    const problems = describeIssues(parsed.error.issues, schema, document);
    return { manifest: undefined, problems: sortProblems(problems) };
  }
  const problems = crossCheck(parsed.data, document);
  if (problems.length > 0) return { manifest: undefined, problems };
  return { manifest: deepFreeze(buildManifest(parsed.data)), problems };
}

const MAX_SUBS = { min: 1, max: 256, default: 32 };

const valueName = z
  .string()
  .regex(
    /^payload\.(\*|[\w-]+(\.[\w-]+)*)$/,
    'must look like payload.name, payload.a.b or payload.*',
  );

const command = {
  type: z.enum(['read', 'write']).default('write'),
  description: z.string().optional(),
  input_schema: z.record(z.string(), z.unknown()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  idempotent: flag().optional(),
  retry_safe: flag().optional(),
  values: strictSection({
    consume: z.array(valueName).default([]),
    emit: z
      .array(strictSection({ event: nonBlankText(), values: z.array(valueName).default([]) }))
      .default([]),
  }).prefault({}),
};

const manifest = {
  manifest_spec: z.literal('ductile.plugin'),
  manifest_version: z.literal(1),
  name: pluginName(),
  // `version: 1.0` is a number in YAML.
  version: z.preprocess(
    (value) => (typeof value === 'number' ? String(value) : value),
    nonBlankText(),
  ),
  protocol: z.literal(PROTOCOL),
  entrypoint: nonBlankText().superRefine((written, context) => {
    const fault = refuseEntrypointText(written);
    if (fault === undefined) return;
    const { message, hint } = fault;
    context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
  }),
  description: z.string().optional(),
  concurrency_safe: flag().default(true),
  prewarm: flag().default(false),
  fact_outputs: z
    .array(
      strictSection({
        when: strictSection({ command: nonBlankText() }),
        from: z.literal('state_updates').default('state_updates'),
        fact_type: nonBlankText(),
        compatibility_view: z.enum(['', 'mirror_object']).default('mirror_object'),
      }),
    )
    .default([]),
  config_keys: strictSection({
    required: z.array(nonBlankText()).default([]),
    optional: z.array(nonBlankText()).default([]),
    // Keys that give access to programs, files or networks. The installer sets them, never a
    // package.
    operator: z.array(nonBlankText()).default([]),
    templates: z.array(nonBlankText()).default([]),
  }).prefault({}),
  stopwatch: strictSection({
    max_subs: count(MAX_SUBS.min, MAX_SUBS.max).default(MAX_SUBS.default),
  }).prefault({}),
};

/** `commands` is a map by name in the specification, and a list in many plugins. */
export const pluginManifestSchema = strictSection({
  ...manifest,
  commands: z.record(commandName(), strictSection(command)),
});
const listManifest = strictSection({
  ...manifest,
  commands: z.array(strictSection({ name: commandName(), ...command })),
});

type ManifestContent = z.output<typeof pluginManifestSchema> | z.output<typeof listManifest>;
type ParsedCommand = z.output<typeof pluginManifestSchema>['commands'][string];

function isListForm(value: unknown): boolean {
  return isObject(value) && Array.isArray(value['commands']);
}

/** Converts each word in a list of commands to a command without settings. */
function nameCommands(value: unknown): unknown {
  if (!isObject(value) || !Array.isArray(value['commands'])) return value;
  const commands = value['commands'].map((entry) =>
    typeof entry === 'string' ? { name: entry } : entry,
  );
  return { ...value, commands };
}

function commandsOf({ commands }: ManifestContent): [KeyPath, string, ParsedCommand][] {
  return Array.isArray(commands)
    ? commands.map((entry, index) => [['commands', index], entry.name, entry])
    : Object.entries(commands).map(([name, entry]) => [['commands', name], name, entry]);
}

function crossCheck(parsed: ManifestContent, document: Document): Problem[] {
  const problems: Problem[] = [];
  const report = (path: KeyPath, message: string, hint?: string): void => {
    problems.push(makeProblem(document.placeOf(path), keyText(path), message, hint));
  };
  const names = new Set<string>();
  for (const [path, name] of commandsOf(parsed)) {
    if (names.has(name)) report(path, `repeats the command ${name}`, 'Keep one of them.');
    names.add(name);
  }
  if (names.size === 0) report(['commands'], 'must not be empty', 'Declare at least one command.');
  for (const [index, { when }] of parsed.fact_outputs.entries()) {
    if (names.has(when.command)) continue;
    const hint = suggest(when.command, [...names], 'declared commands');
    const path = ['fact_outputs', index, 'when', 'command'];
    report(path, `names ${JSON.stringify(when.command)}, which is not a declared command`, hint);
  }
  return problems;
}

function buildManifest(parsed: ManifestContent): Manifest {
  return {
    name: parsed.name,
    version: parsed.version,
    protocol: parsed.protocol,
    entrypoint: parsed.entrypoint,
    description: parsed.description,
    concurrencySafe: parsed.concurrency_safe,
    prewarm: parsed.prewarm,
    commands: makeRecord(
      commandsOf(parsed).map(([, name, entry]) => [name, buildCommand(name, entry)]),
    ),
    factOutputs: parsed.fact_outputs.map((rule) => ({
      command: rule.when.command,
      factType: rule.fact_type,
      compatibilityView: rule.compatibility_view,
    })),
    configKeys: parsed.config_keys,
    stopwatch: { maxSubs: parsed.stopwatch.max_subs },
  };
}

function buildCommand(name: string, parsed: ParsedCommand): ManifestCommand {
  return {
    name,
    type: parsed.type,
    description: parsed.description,
    inputSchema: expandSchema(parsed.input_schema),
    outputSchema: expandSchema(parsed.output_schema),
    idempotent: parsed.idempotent,
    retrySafe: parsed.retry_safe,
    values: parsed.values,
  };
}

const jsonTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const schemaKeywords = ['type', 'properties', 'oneOf', 'anyOf', 'allOf', '$ref', '$schema'];

/**
 * Expands `{url: string}` to an object schema with that property. A word that isn't a JSON type,
 * such as `url: address`, only informs the reader.
 */
function expandSchema(written: Record<string, unknown> | undefined): JsonObject | undefined {
  if (written === undefined) return undefined;
  // The document was checked for values that JSON can't represent.
  const schema = written as JsonObject;
  if (schemaKeywords.some((keyword) => Object.hasOwn(schema, keyword))) return schema;
  const properties = Object.entries(schema).map(([field, type]) => {
    if (typeof type !== 'string') return [field, type] as const;
    return [field, jsonTypes.includes(type) ? { type } : { description: type }] as const;
  });
  return { type: 'object', properties: Object.fromEntries(properties) };
}
