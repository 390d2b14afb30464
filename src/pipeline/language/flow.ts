import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import type { CompileFault } from './check.ts';
import { isSame } from './condition.ts';
import type { PipelineEntry, StepEntry, UsesEntry } from './entry.ts';
import { keyIn, pathsOf, type Template } from './template.ts';

/** What a command says about its payload and its events. */
export interface Contract {
  readonly inputSchema: Readonly<JsonObject> | undefined;
  /** The keys of the payloads of its events; undefined when it does not say, or any are possible. */
  readonly emits: ReadonlySet<string> | undefined;
}

export interface FlowLibrary {
  readonly pipelines: ReadonlyMap<string, PipelineEntry>;
  readonly contractOf: (uses: string) => Contract | undefined;
}

/**
 * Steps whose payload cannot be what they need. A payload from outside, or from a command that does
 * not tell what it emits, may have anything; and a step with a condition may be kept from the rest.
 */
export function checkFlow(entry: PipelineEntry, library: FlowLibrary): CompileFault[] {
  return surveyOf(entry, undefined, { ...library, faults: [], known: new Map() });
}

/** All keys that a payload can have; undefined when it can have any. */
type Keys = ReadonlySet<string> | undefined;
type Survey = FlowLibrary & {
  readonly faults: CompileFault[];
  /** What is said of called pipelines already, whoever calls them. */
  readonly known: Map<PipelineEntry, ReadonlySet<string>>;
};

function surveyOf({ steps }: PipelineEntry, keys: Keys, survey: Survey): CompileFault[] {
  const faults: CompileFault[] = [];
  follow(steps, keys, { ...survey, faults });
  return faults;
}

function follow(steps: readonly StepEntry[], before: Keys, survey: Survey): Keys {
  return steps.reduce<Keys>((keys, step) => {
    if (step.when === undefined) return pass(step, keys, survey);
    return eitherOf(keys, pass(step, undefined, survey));
  }, before);
}

function pass(step: StepEntry, keys: Keys, survey: Survey): Keys {
  switch (step.mode) {
    case 'uses':
      return passTask(step, keys, survey);
    case 'call':
      passCall(step, keys, survey);
      return undefined;
    case 'steps':
      follow(step.steps, keys, survey);
      // A step in it with several events would have left the list at its end.
      return undefined;
    case 'switch':
      for (const { steps } of step.cases) follow(steps, undefined, survey);
      follow(step.otherwise ?? [], undefined, survey);
      return undefined;
    case 'split':
      for (const arm of step.split) follow([arm], keys, survey);
      return plus(keys, step.id);
    case 'foreach':
      checkPaths(step.items, keys, [...step.path, 'foreach'], survey);
      follow(step.steps, plus(keys, step.as, 'index'), survey);
      return plus(keys, step.id);
    default:
      return plus(keys, step.id);
  }
}

/** What only the caller's payload lacks is said about the call. */
function passCall(step: Extract<StepEntry, { mode: 'call' }>, keys: Keys, survey: Survey): void {
  const called = survey.pipelines.get(step.call);
  if (called === undefined || keys === undefined) return;
  const own =
    survey.known.get(called) ??
    new Set(surveyOf(called, undefined, survey).map(({ message }) => message));
  survey.known.set(called, own);
  for (const { message, path } of surveyOf(called, keys, survey)) {
    if (own.has(message)) continue;
    const { key } = called.locate(path);
    survey.faults.push({
      path: [...step.path, 'call'],
      message: `leads to ${key}, which ${message}`,
    });
  }
}

function passTask(step: UsesEntry, keys: Keys, survey: Survey): Keys {
  for (const [key, template] of Object.entries(step.with ?? {})) {
    checkPaths(template, keys, [...step.path, 'with', key], survey);
  }
  if (step.dependency !== undefined) {
    checkPaths(step.dependency, keys, [...step.path, 'dependency'], survey);
  }
  for (const { from } of step.baggage ?? []) {
    checkPaths({ ref: from }, keys, [...step.path, 'baggage'], survey);
  }
  const contract = survey.contractOf(step.uses);
  if (contract?.inputSchema !== undefined) checkInput(step, keys, contract.inputSchema, survey);
  // Without an event, it goes on with what it had.
  const kept = step.onError === 'continue' ? ['result', 'error'] : ['result'];
  return plus(contract?.emits, ...kept, ...(keys ?? []));
}

function checkPaths(
  template: Template,
  keys: Keys,
  path: CompileFault['path'],
  { faults }: Survey,
): void {
  if (keys === undefined) return;
  for (const [root, key] of pathsOf(template)) {
    if (root !== 'payload' || key === undefined) continue;
    if (keys.has(key) || keys.has(keyIn(key))) continue;
    const message = `wants payload.${key}, which the steps before it do not give`;
    faults.push({ path, message, hint: listKeys(keys) });
  }
}

function checkInput(
  step: UsesEntry,
  keys: Keys,
  schema: Readonly<JsonObject>,
  { faults }: Survey,
): void {
  const given = step.with ?? {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  for (const name of required) {
    if (typeof name !== 'string' || keys === undefined) continue;
    if (keys.has(name) || Object.hasOwn(given, name)) continue;
    const message = `names ${step.uses}, which needs payload.${name}, but nothing before it gives one`;
    const hint = `Add it with \`with\`. ${listKeys(keys)}`;
    faults.push({ path: [...step.path, 'uses'], message, hint });
  }
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  for (const [name, template] of Object.entries(given)) {
    const path = [...step.path, 'with', name];
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property === undefined && schema['additionalProperties'] === false) {
      const hint = `It takes ${Object.keys(properties).join(', ') || 'nothing'}.`;
      faults.push({ path, message: `is not a field that ${step.uses} takes`, hint });
    } else if (isObject(property) && !canBe(template, property)) {
      const wanted = JSON.stringify(property['enum'] ?? property['const'] ?? property['type']);
      faults.push({ path, message: `is not what ${step.uses} takes there: ${wanted}` });
    }
  }
}

/** Whether what a template gives can be what a schema wants; only of plain values more is known. */
function canBe(template: Template, schema: JsonObject): boolean {
  const { type, enum: choices, const: only } = schema;
  const types: Json[] = Array.isArray(type) ? type : [type ?? null];
  if (type !== undefined && !types.some((one) => isOfType(template, one))) return false;
  if (!('value' in template)) return true;
  const { value } = template;
  if (Array.isArray(choices)) return choices.some((choice) => isSame(value, choice));
  return only === undefined || isSame(value, only);
}

function isOfType(template: Template, type: Json): boolean {
  if ('ref' in template) return true;
  if ('text' in template) return type === 'string';
  if ('list' in template) return type === 'array';
  if ('map' in template) return type === 'object';
  const { value } = template;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  return type === 'object' ? isObject(value) : typeof value === type;
}

function plus(keys: Keys, ...more: string[]): Keys {
  return keys === undefined ? undefined : new Set([...keys, ...more]);
}

function eitherOf(one: Keys, other: Keys): Keys {
  return one === undefined || other === undefined ? undefined : new Set([...one, ...other]);
}

function listKeys(keys: ReadonlySet<string>): string {
  return keys.size === 0 ? 'There are no others.' : `There is ${[...keys].join(', ')}.`;
}
