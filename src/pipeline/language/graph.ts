import type { Json } from '../../base/json.ts';
import type { BaggageRule } from './baggage.ts';
import type { Condition } from './condition.ts';
import type { Template } from './template.ts';

/**
 * A pipeline as it runs: plain JSON, so that a run can keep the one that it began with. Called
 * pipelines are laid in, lists within lists are laid flat; what is left are nodes that lead on.
 */
export interface Graph {
  readonly name: string;
  /** Of all that decides what happens; the same on every host, and again after a restart. */
  readonly hash: string;
  readonly first: NodeId;
  readonly nodes: Readonly<Record<NodeId, Node>>;
  readonly maxFanout: number;
  readonly onHalt: Handler | undefined;
}

/** A step's id, unique in its pipeline; those of a called pipeline begin with `<id of the call>/`. */
export type NodeId = string;

export interface Target {
  readonly plugin: string;
  readonly command: string;
}

/** A command that is called beside the steps, and how often it is tried. */
export interface Handler extends Target {
  readonly maxAttempts?: number;
}

export type Node = TaskNode | SplitNode | ForeachNode | SwitchNode | ApproveNode | WaitNode;
export type NodeKind = Node['kind'];

interface Leads {
  readonly id: NodeId;
  /** What comes after it; null at the end of its branch. */
  readonly next: NodeId | null;
  /** What comes after the list of steps that it is in; the same as `next` for the last of the list. */
  readonly end: NodeId | null;
  /** The id of the `steps:`, `call:` or `switch:` that the list belongs to; empty for a branch's own. */
  readonly list: string;
  /** It is passed over when this does not hold. */
  readonly when: Condition | undefined;
}

export interface TaskNode extends Leads, Target {
  readonly kind: 'task';
  readonly with: Readonly<Record<string, Template>> | undefined;
  readonly baggage: BaggageRule | undefined;
  /** What it has in common with other jobs, of which one at a time may run. */
  readonly dependency?: Template | undefined;
  readonly maxAttempts: number | undefined;
  readonly backoffBaseMs: number | undefined;
  readonly timeoutMs: number | undefined;
  /** `continue`: what cannot be done is put into the payload as `error`, and the branch goes on. */
  readonly onError: OnError;
}

export type OnError = 'halt' | 'continue';

export interface SplitNode extends Leads {
  readonly kind: 'split';
  readonly arms: readonly { readonly label: string; readonly first: NodeId }[];
}

export interface ForeachNode extends Leads {
  readonly kind: 'foreach';
  readonly items: Template;
  /** The name of the element in the payload of its branch. */
  readonly as: string;
  readonly first: NodeId;
  /** How many branches may be under way at once. */
  readonly concurrency: number | undefined;
  readonly maxFanout: number;
}

export interface SwitchNode extends Leads {
  readonly kind: 'switch';
  /** What cases are compared with; undefined when they are conditions. */
  readonly value: Template | undefined;
  readonly cases: readonly {
    readonly label: string;
    readonly when: Condition | undefined;
    readonly equals: Json | undefined;
    /** Null for an arm without steps. */
    readonly first: NodeId | null;
  }[];
  /** Undefined when a value that no case wants is an error. */
  readonly otherwise: { readonly first: NodeId | null } | undefined;
}

export interface ApproveNode extends Leads {
  readonly kind: 'approve';
  readonly message: Template | undefined;
  readonly timeoutMs: number | undefined;
  readonly onTimeout: 'halt' | 'approve' | 'reject';
  /** What a rejection does. */
  readonly onError: OnError;
}

export interface WaitNode extends Leads {
  readonly kind: 'wait';
  readonly delayMs: number | undefined;
  /** A time, as text that `Date.parse` understands. */
  readonly until: Template | undefined;
  readonly signal:
    | {
        readonly type: string;
        readonly from: string | undefined;
        /** Over `signal.*` beside `payload.*` and `context.*`. */
        readonly when: Condition | undefined;
        /** One that came while its run was under way will do, unless it has to be a new one. */
        readonly since?: 'now' | undefined;
      }
    | undefined;
  /** Of a wait for a signal. */
  readonly timeoutMs: number | undefined;
  readonly onError: OnError;
}

/** The key under which a step puts something into the payload: its id where it was written. */
export function keyOf(id: NodeId): string {
  return id.slice(id.lastIndexOf('/') + 1);
}
