import type { Json } from '../../base/json.ts';
import type { BaggageRule } from './baggage.ts';
import type { Condition } from './condition.ts';
import type { Template } from './template.ts';

/**
 * A compiled pipeline as plain JSON, so that a run can store the definition that it started with.
 * Called pipelines are inlined and nested lists are flat.
 */
export interface Graph {
  readonly name: string;
  /**
   * Covers everything that decides what a run does. It is the same on every host and after a
   * restart.
   */
  readonly hash: string;
  readonly first: NodeId;
  readonly nodes: Readonly<Record<NodeId, Node>>;
  readonly maxFanout: number;
  readonly onHalt: Handler | undefined;
}

/**
 * The id of a step, unique in its pipeline. Ids of a called pipeline start with `<id of the
 * call>/`.
 */
export type NodeId = string;

export interface CommandTarget {
  readonly plugin: string;
  readonly command: string;
}

/** A command that runs outside the steps, such as `on_halt`. */
export interface Handler extends CommandTarget {
  readonly maxAttempts?: number;
}

export type Node = TaskNode | SplitNode | ForeachNode | SwitchNode | ApproveNode | WaitNode;
export type NodeKind = Node['kind'];

interface NodeLinks {
  readonly id: NodeId;
  /** The following node, or null at the end of the branch. */
  readonly next: NodeId | null;
  /** The node after the enclosing list of steps. Equals `next` for the last step of the list. */
  readonly end: NodeId | null;
  /** The id of the enclosing `steps:`, `call:` or `switch:`. Empty for the list of a branch. */
  readonly list: string;
  /** The step is skipped if this condition doesn't hold. */
  readonly when: Condition | undefined;
}

export interface TaskNode extends NodeLinks, CommandTarget, TaskSettings {
  readonly kind: 'task';
}

/** The settings that a step and its node share. */
export interface TaskSettings {
  readonly with: Readonly<Record<string, Template>> | undefined;
  readonly baggage: BaggageRule | undefined;
  /** Only one job per dependency key runs at a time. */
  readonly dependency?: Template | undefined;
  readonly maxAttempts: number | undefined;
  readonly backoffBaseMs: number | undefined;
  readonly timeoutMs: number | undefined;
  /** `continue`: a failure is put into the payload as `error`, and the branch continues. */
  readonly onError: OnError;
}

export type OnError = 'halt' | 'continue';

export interface SplitNode extends NodeLinks {
  readonly kind: 'split';
  readonly arms: readonly { readonly label: string; readonly first: NodeId }[];
}

export interface ForeachNode extends NodeLinks {
  readonly kind: 'foreach';
  readonly items: Template;
  /** The name of the element in the payload of its branch. */
  readonly as: string;
  readonly first: NodeId;
  /** The maximum number of branches that run at the same time. */
  readonly concurrency: number | undefined;
  readonly maxFanout: number;
}

export interface SwitchNode extends NodeLinks {
  readonly kind: 'switch';
  /** The value that cases are compared with. Undefined if the cases are conditions. */
  readonly value: Template | undefined;
  readonly cases: readonly {
    readonly label: string;
    readonly when: Condition | undefined;
    readonly equals: Json | undefined;
    /** Null for an arm without steps. */
    readonly first: NodeId | null;
  }[];
  /** Undefined if a value without a matching case is an error. */
  readonly otherwise: { readonly first: NodeId | null } | undefined;
}

export interface ApproveNode extends NodeLinks, ApproveSettings {
  readonly kind: 'approve';
}

export interface ApproveSettings {
  readonly message: Template | undefined;
  readonly timeoutMs: number | undefined;
  readonly onTimeout: 'halt' | 'approve' | 'reject';
  /** The effect of a rejection. */
  readonly onError: OnError;
}

export interface WaitNode extends NodeLinks, WaitSettings {
  readonly kind: 'wait';
}

export interface WaitSettings {
  readonly delayMs: number | undefined;
  /** A time in a format that `Date.parse` understands. */
  readonly until: Template | undefined;
  readonly signal:
    | {
        readonly type: string;
        readonly from: string | undefined;
        /** Can use `signal.*` beside `payload.*` and `context.*`. */
        readonly when: Condition | undefined;
        /** By default, a signal that arrived since the run started counts, too. */
        readonly since?: 'now' | undefined;
      }
    | undefined;
  /** Only for a wait for a signal. */
  readonly timeoutMs: number | undefined;
  readonly onError: OnError;
}

/** Lists the commands that runs of a pipeline can start, each with its part in the pipeline. */
export function listPipelineCommands({
  name,
  graph: { nodes, onHalt },
}: {
  readonly name: string;
  readonly graph: Graph;
}): (CommandTarget & { readonly as: string })[] {
  const steps = Object.values(nodes).flatMap((node) =>
    node.kind === 'task'
      ? [{ plugin: node.plugin, command: node.command, as: `a step of ${name}` }]
      : [],
  );
  if (onHalt === undefined) return steps;
  return [...steps, { plugin: onHalt.plugin, command: onHalt.command, as: `on_halt of ${name}` }];
}
