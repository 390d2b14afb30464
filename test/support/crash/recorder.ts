/**
 * A plugin that keeps its own record of what was done, outside of the engine's reach: a line when
 * it starts and one when its work is done, each on the disk before it goes on or answers.
 */
import { readFileSync, statfsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The options of a payload besides being recorded. */
export interface Wish {
  readonly sleep_ms?: number;
  /** Every attempt with a smaller number fails. */
  readonly fail_before?: number;
  /** Every attempt with a smaller number never ends by itself. */
  readonly hang_before?: number;
  readonly padding?: string;
  /** Its dependency key. */
  readonly key?: string;
  /** The dedupe key of the event that it emits, or of the run. */
  readonly dedupe?: string;
  /** It is a run of the pipeline, with so many elements. */
  readonly items?: number;
}

/** A line of the record. */
export interface RecordLine {
  readonly job_id: string;
  readonly plugin: string;
  readonly attempt: number;
  readonly idempotency_key: string;
  readonly phase: 'start' | 'end';
  /** When, in milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  /** When the process was born, in the kernel's ticks: pids come back, this does not. */
  readonly born: string;
  /** Processes of earlier attempts at the same job, or of its key, that lived when this one started. */
  readonly survivors: readonly number[];
}

export const doneEvent = 'recorder.done';
/** Its number in the kernel. */
const TMPFS = 0x1021994;

/**
 * Data in memory is as safe without a sync, and a process for each sync costs more than all the
 * rest.
 */
const sync = statfsSync(tmpdir()).type === TMPFS ? 'sync() { :; }' : '';

/** In the shell, which is there ten times sooner than an interpreter: campaigns start thousands. */
export const recorder = [
  '#!/bin/bash',
  sync,
  readFileSync(join(import.meta.dirname, 'recorder.sh'), 'utf8'),
].join('\n');

export async function readRecord(path: string): Promise<RecordLine[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RecordLine);
}

/** The process that wrote the line still lives. */
export function isRunning({ pid, born }: RecordLine): boolean {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return !'ZX'.includes(state) && rest[18] === born;
  } catch {
    return false;
  }
}
