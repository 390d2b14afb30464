import { formatDuration } from '../../base/quantity.ts';
import { limits } from '../../base/limits.ts';
import { toVisibleText } from '../../base/text.ts';
import { payloadKeyOf, requireNode } from '../run/walk.ts';
import type { ForeachNode, Graph, Node, NodeId, SwitchNode, TaskNode, WaitNode } from './graph.ts';
import { formatPath, type Template } from './template.ts';
import { isObject } from '../../base/json.ts';
import { isSecretName, maskSecrets, maskText, REDACTED } from '../../base/secrets.ts';
import type { Condition } from './condition.ts';

/** A step in a drawing: its action, its settings, and the steps inside it. */
export interface DrawnStep {
  readonly id: NodeId;
  /** `group`: a list of steps, or a called pipeline, with a condition. */
  readonly kind: Node['kind'] | 'group';
  readonly does: string;
  readonly notes: readonly string[];
  readonly arms: readonly DrawnArm[];
}

export interface DrawnArm {
  readonly label: string | null;
  readonly steps: readonly DrawnStep[];
}

/** True if an arm has no name, or the name of its only step, and needs no line of its own. */
export function isUnlabeledArm({ label, steps }: DrawnArm): boolean {
  const [first, ...more] = steps;
  if (label === null) return true;
  return first !== undefined && more.length === 0 && payloadKeyOf(first.id) === label;
}

/** Returns the steps of a pipeline as a tree, with called pipelines inlined. */
export function outlineSteps(graph: Graph): DrawnStep[] {
  return drawList(graph, graph.first, null);
}

function drawList(graph: Graph, first: NodeId | null, end: NodeId | null): DrawnStep[] {
  const drawn: DrawnStep[] = [];
  for (let id = first; id !== null && id !== end;) {
    const node = requireNode(graph, id);
    drawn.push(drawStep(graph, node));
    id = node.next;
  }
  return drawn;
}

function drawStep(graph: Graph, node: Node): DrawnStep {
  const arms = armsOf(graph, node);
  const isGroup = node.kind === 'switch' && node.cases.length === 0;
  const when = node.when === undefined ? [] : [`if ${formatCondition(node.when)}`];
  return {
    id: node.id,
    kind: isGroup ? 'group' : node.kind,
    does: toVisibleText(isGroup ? 'steps' : doesOf(node)),
    notes: [...when, ...notesOf(node)].map(toVisibleText),
    arms: isGroup ? arms.map(({ steps }) => ({ label: null, steps })) : arms,
  };
}

function armsOf(graph: Graph, node: Node): DrawnArm[] {
  if (node.kind === 'split') {
    return node.arms.map(({ label, first }) => ({ label, steps: drawList(graph, first, null) }));
  }
  if (node.kind === 'foreach') {
    return [{ label: null, steps: drawList(graph, node.first, null) }];
  }
  return node.kind === 'switch' ? switchArms(graph, node) : [];
}

function switchArms(graph: Graph, node: SwitchNode): DrawnArm[] {
  const arms = node.cases.map(({ label, when, first }) => ({
    label: when === undefined ? `case ${label}` : `if ${formatCondition(when)}`,
    steps: drawList(graph, first, node.next),
  }));
  if (node.otherwise === undefined) return arms;
  const steps = drawList(graph, node.otherwise.first, node.next);
  return [...arms, { label: 'otherwise', steps }];
}

function doesOf(node: Node): string {
  if (node.kind === 'task') return `${node.plugin}.${node.command}`;
  if (node.kind === 'foreach') return `foreach ${formatTemplate(node.items)} as ${node.as}`;
  if (node.kind === 'wait') return waitText(node);
  if (node.kind === 'switch' && node.value !== undefined) {
    return `switch ${formatTemplate(node.value)}`;
  }
  if (node.kind === 'approve' && node.message !== undefined) {
    return `approve: ${formatTemplate(node.message)}`;
  }
  return node.kind;
}

function waitText({ delayMs, until, signal }: WaitNode): string {
  if (delayMs !== undefined) return `wait ${formatDuration(delayMs)}`;
  if (until !== undefined) return `wait until ${formatTemplate(until)}`;
  const from = signal?.from === undefined ? '' : ` from ${signal.from}`;
  const when = signal?.when === undefined ? '' : ` if ${formatCondition(signal.when)}`;
  const since = signal?.since === undefined ? '' : ` since ${signal.since}`;
  return `wait for ${signal?.type ?? 'nothing'}${from}${when}${since}`;
}

function notesOf(node: Node): string[] {
  if (node.kind === 'task') return taskNotes(node);
  if (node.kind === 'foreach') return foreachNotes(node);
  if (node.kind !== 'approve' && node.kind !== 'wait') return [];
  const onTimeout = node.kind === 'approve' ? `, then ${node.onTimeout}` : '';
  return [
    ...(node.timeoutMs === undefined
      ? []
      : [`within ${formatDuration(node.timeoutMs)}${onTimeout}`]),
    ...errorNote(node),
  ];
}

function taskNotes(node: TaskNode): string[] {
  return [
    ...Object.entries(node.with ?? {}).map((field) => `with ${formatField(field)}`),
    ...(node.baggage ?? []).map(({ to, from }) => `baggage ${formatPath(to)}: ${formatPath(from)}`),
    ...(node.dependency === undefined ? [] : [`dependency ${formatTemplate(node.dependency)}`]),
    ...(node.timeoutMs === undefined ? [] : [`timeout ${formatDuration(node.timeoutMs)}`]),
    ...retryNote(node),
    ...errorNote(node),
  ];
}

/** Empty for the default attempts and backoff. */
function retryNote({ maxAttempts = limits.attemptsMax, backoffBaseMs }: TaskNode): string[] {
  const delay = backoffBaseMs === undefined ? '' : `, backoff ${formatDuration(backoffBaseMs)}`;
  if (maxAttempts === limits.attemptsMax && delay === '') return [];
  return [`${maxAttempts} ${maxAttempts === 1 ? 'attempt' : 'attempts'}${delay}`];
}

function foreachNotes({ concurrency }: ForeachNode): string[] {
  return concurrency === undefined ? [] : [`${concurrency} at once`];
}

function errorNote({ onError }: Pick<TaskNode, 'onError'>): string[] {
  return onError === 'continue' ? ['on_error: continue'] : [];
}

/** Draws a tree of lines, optionally with the settings of each step. */
export function drawText(graph: Graph, title: string, hasNotes: boolean): string {
  const draw = (step: DrawnStep): TreeEntry => ({
    head: `${step.id}: ${step.does}`,
    notes: hasNotes ? step.notes : step.notes.filter((note) => note.startsWith('if ')),
    below: step.arms.flatMap((arm) => (isUnlabeledArm(arm) ? arm.steps.map(draw) : [drawArm(arm)])),
  });
  const drawArm = ({ label, steps }: DrawnArm): TreeEntry => ({
    head: label ?? '',
    notes: [],
    below: steps.length === 0 ? [NOTHING] : steps.map(draw),
  });
  return [title, ...formatTree(outlineSteps(graph).map(draw), '')].join('\n');
}

interface TreeEntry {
  readonly head: string;
  readonly notes: readonly string[];
  readonly below: readonly TreeEntry[];
}

const NOTHING: TreeEntry = { head: 'nothing', notes: [], below: [] };

function formatTree(branches: readonly TreeEntry[], lead: string): string[] {
  return branches.flatMap(({ head, notes, below }, index) => {
    const isLast = index === branches.length - 1;
    const inner = `${lead}${isLast ? '   ' : '│  '}`;
    const bar = below.length === 0 ? '   ' : '│  ';
    return [
      `${lead}${isLast ? '└─ ' : '├─ '}${head}`,
      ...notes.map((note) => `${inner}${bar}${note}`),
      ...formatTree(below, inner),
    ];
  });
}

/** Formats a condition in one line. */
export function formatCondition(condition: Condition): string {
  if ('cel' in condition) return condition.cel.replaceAll(/\s+/g, ' ').trim();
  if ('all' in condition) return joined(condition.all, ' and ');
  if ('any' in condition) return joined(condition.any, ' or ');
  if ('not' in condition) return `not (${formatCondition(condition.not)})`;
  const { path, op, value } = condition;
  return op === 'exists'
    ? `${formatPath(path)} exists`
    : `${formatPath(path)} ${op} ${JSON.stringify(value)}`;
}

function joined(conditions: readonly Condition[], word: string): string {
  const texts = conditions.map(formatCondition);
  return texts.length === 1 ? texts.join('') : `(${texts.join(word)})`;
}

/**
 * Formats a template as it was written, with secrets masked. Values other than text appear as JSON.
 */
export function formatTemplate(template: Template): string {
  if ('value' in template) {
    const masked = isObject(template.value) ? maskSecrets(template.value) : template.value;
    return typeof masked === 'string' ? maskText(masked) : maskText(JSON.stringify(masked));
  }
  if ('ref' in template) return `{${formatPath(template.ref)}}`;
  if ('text' in template) {
    const parts = template.text.map((part) =>
      typeof part === 'string' ? part : `{${formatPath(part.ref)}}`,
    );
    return maskText(parts.join(''));
  }
  if ('list' in template) return `[${template.list.map(formatTemplate).join(', ')}]`;
  return `{${Object.entries(template.map).map(formatField).join(', ')}}`;
}

/** Masks the value of a secret field, but not a reference to it. */
function formatField([key, template]: readonly [string, Template]): string {
  const isHidden = isSecretName(key) && !('ref' in template);
  return `${key}: ${isHidden ? REDACTED : formatTemplate(template)}`;
}
