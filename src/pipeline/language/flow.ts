import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import type { CompileFault } from './check.ts';
import { isSameJson } from './condition.ts';
import type { PipelineEntry, StepEntry, UsesEntry } from './entry.ts';
import { stripIndexes, listTemplatePaths, type Template } from './template.ts';

/** The payload that a command expects and the events that it emits. */
export interface CommandContract {
  readonly inputSchema: Readonly<JsonObject> | undefined;
  /**
   * The keys of the payloads of its events. Undefined if it declares none, or if any key is
   * possible.
   */
  readonly emits: ReadonlySet<string> | undefined;
}

export interface FlowLibrary {
  readonly pipelines: ReadonlyMap<string, PipelineEntry>;
  readonly contractOf: (uses: string) => CommandContract | undefined;
}

/**
 * Reports steps that can't get the payload that they need. A payload from outside, or from a
 * command without declared events, can have any key. So can the payload after a conditional step.
 */
export function checkFlow(entry: PipelineEntry, library: FlowLibrary): CompileFault[] {
  return checkSteps(entry, undefined, { ...library, faults: [], known: new Map() });
}

/** All keys that a payload can have. Undefined if any key is possible. */
type Keys = ReadonlySet<string> | undefined;
type FlowCheck = FlowLibrary & {
  readonly faults: CompileFault[];
  /** The faults that called pipelines have without a caller. */
  readonly known: Map<PipelineEntry, ReadonlySet<string>>;
};

function checkSteps({ steps }: PipelineEntry, keys: Keys, check: FlowCheck): CompileFault[] {
  const faults: CompileFault[] = [];
  followSteps(steps, keys, { ...check, faults });
  return faults;
}

function followSteps(steps: readonly StepEntry[], before: Keys, check: FlowCheck): Keys {
  return steps.reduce<Keys>((keys, step) => {
    if (step.when === undefined) return followStep(step, keys, check);
    return uniteKeys(keys, followStep(step, undefined, check));
  }, before);
}

function followStep(step: StepEntry, keys: Keys, check: FlowCheck): Keys {
  switch (step.mode) {
    case 'uses':
      return followTask(step, keys, check);
    case 'call':
      followCall(step, keys, check);
      return undefined;
    case 'steps':
      followSteps(step.steps, keys, check);
      // A step with several events would have left the list at its end.
      return undefined;
    case 'switch':
      for (const { steps } of step.cases) followSteps(steps, undefined, check);
      followSteps(step.otherwise ?? [], undefined, check);
      return undefined;
    case 'split':
      for (const arm of step.split) followSteps([arm], keys, check);
      return addKeys(keys, step.id);
    case 'foreach':
      checkPaths(step.items, keys, [...step.path, 'foreach'], check);
      followSteps(step.steps, addKeys(keys, step.as, 'index'), check);
      return addKeys(keys, step.id);
    default:
      return addKeys(keys, step.id);
  }
}

/** Reports at the call only those faults that the caller's payload causes. */
function followCall(
  step: Extract<StepEntry, { mode: 'call' }>,
  keys: Keys,
  check: FlowCheck,
): void {
  const called = check.pipelines.get(step.call);
  if (called === undefined || keys === undefined) return;
  const own =
    check.known.get(called) ??
    new Set(checkSteps(called, undefined, check).map(({ message }) => message));
  check.known.set(called, own);
  for (const { message, path } of checkSteps(called, keys, check)) {
    if (own.has(message)) continue;
    const { key } = called.locate(path);
    check.faults.push({
      path: [...step.path, 'call'],
      message: `leads to ${key}, which ${message}`,
    });
  }
}

function followTask(step: UsesEntry, keys: Keys, check: FlowCheck): Keys {
  for (const [key, template] of Object.entries(step.with ?? {})) {
    checkPaths(template, keys, [...step.path, 'with', key], check);
  }
  if (step.dependency !== undefined) {
    checkPaths(step.dependency, keys, [...step.path, 'dependency'], check);
  }
  for (const { from } of step.baggage ?? []) {
    checkPaths({ ref: from }, keys, [...step.path, 'baggage'], check);
  }
  const contract = check.contractOf(step.uses);
  if (contract?.inputSchema !== undefined) checkInput(step, keys, contract.inputSchema, check);
  // Without an event, the branch continues with its previous payload.
  const kept = step.onError === 'continue' ? ['result', 'error'] : ['result'];
  return addKeys(contract?.emits, ...kept, ...(keys ?? []));
}

function checkPaths(
  template: Template,
  keys: Keys,
  path: CompileFault['path'],
  { faults }: FlowCheck,
): void {
  if (keys === undefined) return;
  for (const [root, key] of listTemplatePaths(template)) {
    if (root !== 'payload' || key === undefined) continue;
    if (keys.has(key) || keys.has(stripIndexes(key))) continue;
    const message = `uses payload.${key}, which no earlier step provides`;
    faults.push({ path, message, hint: listKeys(keys) });
  }
}

function checkInput(
  step: UsesEntry,
  keys: Keys,
  schema: Readonly<JsonObject>,
  { faults }: FlowCheck,
): void {
  const written = step.with ?? {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  for (const name of required) {
    if (typeof name !== 'string' || keys === undefined) continue;
    if (keys.has(name) || Object.hasOwn(written, name)) continue;
    const message = `names ${step.uses}, which needs payload.${name}; no earlier step provides it`;
    const hint = `Add it with \`with\`. ${listKeys(keys)}`;
    faults.push({ path: [...step.path, 'uses'], message, hint });
  }
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  for (const [name, template] of Object.entries(written)) {
    const path = [...step.path, 'with', name];
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property === undefined && schema['additionalProperties'] === false) {
      const hint = `It accepts ${Object.keys(properties).join(', ') || 'no fields'}.`;
      faults.push({ path, message: `is not a field that ${step.uses} accepts`, hint });
    } else if (isObject(property) && !canMatch(template, property)) {
      const expected = JSON.stringify(property['enum'] ?? property['const'] ?? property['type']);
      faults.push({ path, message: `is not a value that ${step.uses} accepts there: ${expected}` });
    }
  }
}

/** True if the value of a template can match a schema. Only plain values are compared in full. */
function canMatch(template: Template, schema: JsonObject): boolean {
  const { type, enum: choices, const: only } = schema;
  const types: Json[] = Array.isArray(type) ? type : [type ?? null];
  if (type !== undefined && !types.some((name) => isOfType(template, name))) return false;
  if (!('value' in template)) return true;
  const { value } = template;
  if (Array.isArray(choices)) return choices.some((choice) => isSameJson(value, choice));
  return only === undefined || isSameJson(value, only);
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

function addKeys(keys: Keys, ...more: string[]): Keys {
  return keys === undefined ? undefined : new Set([...keys, ...more]);
}

function uniteKeys(one: Keys, other: Keys): Keys {
  return one === undefined || other === undefined ? undefined : new Set([...one, ...other]);
}

function listKeys(keys: ReadonlySet<string>): string {
  return keys.size === 0 ? 'The payload has no keys.' : `The payload has ${[...keys].join(', ')}.`;
}
