import * as z from 'zod';
import { count, dependencyKey, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { quietActions, type QuietAction, type QuietHours } from '../schedule/window.ts';
import { isTimezone } from '../schedule/zone.ts';
import { findNameFault } from '../signal/signal.ts';
import { hasPromptPlaceholder } from './prompt.ts';

/** The work that a delivery starts. */
export type WebhookTarget =
  | { readonly kind: 'command'; readonly plugin: string; readonly command: string }
  | { readonly kind: 'pipeline'; readonly pipeline: string }
  | { readonly kind: 'signal'; readonly type: string }
  | AgentTarget;

/**
 * `wake` is a turn in an existing conversation. `cron_task` is a new one in the folder of a task.
 */
export const agentModes = ['wake', 'cron_task'] as const;

export type AgentTarget = {
  readonly kind: 'agent';
  readonly promptTemplate: string;
  /** Stands outside of the safety boundary. */
  readonly instruction: string | undefined;
} & (
  | { readonly mode: 'wake' }
  | {
      readonly mode: 'cron_task';
      readonly taskFolder: string;
      readonly overrides: AgentOverrides;
      readonly quiet: QuietHours;
      readonly quietAction: QuietAction;
      readonly timezone: string | undefined;
      readonly dependency: string | undefined;
    }
);

/** Settings that override the global ones. Parameters have no global setting. */
interface AgentOverrides {
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly reasoningEffort: string | undefined;
  readonly cliParameters: readonly string[];
}

const hour = count(0, 23);
const word = nonBlankText()
  .max(200)
  .regex(/^[^\s\p{Cc}]+$/u, 'must be one word');

const parameter = z
  .string()
  .max(limits.cliParameterCharsMax)
  .refine((value) => !value.includes('\0'), 'must not contain the character U+0000')
  .refine((value) => value !== '--', 'must not be --, because the prompt follows it');

export const targetFields = {
  plugin: nonBlankText().optional(),
  command: nonBlankText().optional(),
  pipeline: nonBlankText().optional(),
  signal: z
    .string()
    .superRefine((name, context) => {
      const message = findNameFault(name);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .optional(),
  mode: z.enum(agentModes).optional(),
  prompt_template: nonBlankText().max(limits.promptTemplateCharsMax).optional(),
  instruction: nonBlankText()
    .max(limits.promptTemplateCharsMax)
    .refine((value) => !hasPromptPlaceholder(value), {
      error: 'must not contain {{placeholders}}: it is outside the safety boundary',
      params: { hint: 'Put them into prompt_template.' },
    })
    .optional(),
  task_folder: z
    .string()
    .regex(
      /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/,
      'must be the name of one folder: letters, digits, _, - and dots',
    )
    .optional(),
  provider: word.optional(),
  model: word.optional(),
  reasoning_effort: word.optional(),
  cli_parameters: z.array(parameter).max(limits.cliParametersMax).optional(),
  quiet_start: hour.optional(),
  quiet_end: hour.optional(),
  quiet_action: z.enum(quietActions).optional(),
  timezone: z
    .string()
    .refine(isTimezone, {
      error: 'is not a time zone',
      params: { hint: 'Write an IANA name, such as Europe/Lisbon or UTC.', shown: true },
    })
    .optional(),
  dependency: dependencyKey().optional(),
};

type TargetFields = z.output<z.ZodObject<typeof targetFields>>;
type Key = keyof TargetFields;

export type ReportField = (key: string, message: string, hint?: string) => void;

const kinds = ['plugin', 'pipeline', 'signal', 'mode'] as const;
const agentKeys = ['prompt_template', 'instruction'] as const;
const taskKeys = [
  'task_folder',
  'provider',
  'model',
  'reasoning_effort',
  'cli_parameters',
  'quiet_start',
  'quiet_end',
  'quiet_action',
  'timezone',
  'dependency',
] as const;

/** Reports contradictions between the keys of a target. */
export function checkTargetFields(fields: TargetFields, report: ReportField): void {
  const [first, second] = kinds.filter((kind) => fields[kind] !== undefined);
  if (first === undefined) {
    report(
      'plugin',
      'or one of pipeline, signal and mode is required',
      'Name what a delivery starts.',
    );
  }
  if (second !== undefined) report(second, `and ${first} exclude each other`, 'Keep one of them.');
  const refuse = (keys: readonly Key[], why: string): void => {
    for (const key of keys) if (isGiven(fields[key])) report(key, why, 'Leave it out.');
  };
  if (first !== 'plugin') refuse(['command'], 'is only for plugin');
  if (first !== 'mode') refuse(agentKeys, 'is only for mode');
  if (fields.mode !== 'cron_task') refuse(taskKeys, 'is only for mode cron_task');
  if (first === 'mode' && fields.prompt_template === undefined) {
    report('prompt_template', 'is required', 'Write the prompt, with {{field}} in it.');
  }
  if (fields.mode === 'cron_task' && fields.task_folder === undefined) {
    report('task_folder', 'is required for mode cron_task', 'Name the folder of the agent.');
  }
}

export function toTarget(fields: TargetFields): WebhookTarget {
  const { plugin, pipeline, signal, mode } = fields;
  if (plugin !== undefined)
    return { kind: 'command', plugin, command: fields.command ?? webhookDefaults.command };
  if (pipeline !== undefined) return { kind: 'pipeline', pipeline };
  if (signal !== undefined) return { kind: 'signal', type: signal };
  const { prompt_template: promptTemplate = '', instruction } = fields;
  const agent = { kind: 'agent', promptTemplate, instruction } as const;
  if (mode === 'wake') return { ...agent, mode };
  if (mode === undefined) throw new TypeError('a webhook without a target was not checked');
  return {
    ...agent,
    mode,
    taskFolder: fields.task_folder ?? '',
    overrides: {
      provider: fields.provider,
      model: fields.model,
      reasoningEffort: fields.reasoning_effort,
      cliParameters: fields.cli_parameters ?? [],
    },
    quiet: { start: fields.quiet_start, end: fields.quiet_end },
    quietAction: fields.quiet_action ?? webhookDefaults.quietAction,
    timezone: fields.timezone,
    dependency: fields.dependency,
  };
}

/** Describes the work that a webhook's deliveries start. */
export function describeTarget(target: WebhookTarget): string {
  if (target.kind === 'command') return `a job of ${target.plugin}.${target.command}`;
  if (target.kind === 'pipeline') return `a run of ${target.pipeline}`;
  if (target.kind === 'signal') return `a signal ${target.type}`;
  if (target.mode === 'wake') return 'a turn of an agent with each allowed user';
  return `a task of an agent in ${target.taskFolder}`;
}

/** Entries of the original program have an empty list for a missing one. */
function isGiven(value: TargetFields[Key]): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined;
}

/** Defaults of a webhook's settings. */
export const webhookDefaults = {
  command: 'handle',
  algorithm: 'sha256',
  encoding: 'hex',
  quietAction: 'skip',
  respond: 'accepted',
  replay: 'normal',
  maxBodyBytes: limits.webhookBodyBytesMax,
  ratePerMinute: limits.webhookRateDefault,
  waitMs: limits.webhookRespondMs,
} as const;

/** The text before a signature. */
export function defaultSignaturePrefix(algorithm: string): string {
  return `${algorithm}=`;
}
