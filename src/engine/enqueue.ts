import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { findUnsafe } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { JobDraft } from '../job/job.ts';
import type { ContextDraft, Enqueued, Ledger } from '../ledger/ledger.ts';
import { lookupCommand, type Catalog } from '../plugin/catalog.ts';
import type { Submission } from './engine.ts';

/** The one door in: everything that is accepted from outside passes here and is committed. */
export interface Door {
  submit(submission: Submission): Promise<Enqueued>;
}

interface Waiting {
  readonly job: JobDraft;
  readonly context: ContextDraft | undefined;
  readonly resolve: (enqueued: Enqueued) => void;
  readonly reject: (error: unknown) => void;
}

/** What was submitted in one turn of the event loop is one batch and one commit. */
export function makeDoor(
  ledger: Ledger,
  catalog: () => Catalog,
  dedupeTtlMs: () => number,
  onEnqueued: (enqueued: readonly Enqueued[]) => void,
): Door {
  let waiting: Waiting[] = [];

  const enqueue = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const enqueued = await ledger.enqueue({
        jobs: batch.map(({ job }) => job),
        contexts: batch.flatMap(({ context }) => (context === undefined ? [] : [context])),
      });
      batch.forEach(({ job, resolve }, index) => resolve(enqueued[index] ?? { jobId: job.id }));
      onEnqueued(enqueued);
    } catch (error) {
      // What the ledger refuses of one is no reason to refuse the others that came with it.
      if (batch.length > 1 && !(error instanceof DuctileError)) {
        for (const one of batch) await enqueue([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void enqueue(batch);
  };

  return {
    submit(submission) {
      return new Promise((resolve, reject) => {
        const draft = toDraft(submission, catalog(), dedupeTtlMs());
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ ...draft, resolve, reject });
      });
    },
  };
}

function toDraft(
  submission: Submission,
  catalog: Catalog,
  dedupeTtlMs: number,
): { job: JobDraft; context: ContextDraft | undefined } {
  const plugin = catalog.plugins.get(submission.plugin);
  if (plugin === undefined) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${submission.plugin}`);
  }
  if (lookupCommand(plugin, submission.command) === undefined) {
    const known = Object.keys(plugin.manifest.commands).join(', ');
    const message = `the plugin ${plugin.name} has no command ${submission.command}`;
    throw new DuctileError('COMMAND_NOT_FOUND', message, { hint: `It has: ${known}.` });
  }
  const payload = toText(submission.payload, 'payload');
  const context: ContextDraft | undefined =
    submission.context === undefined
      ? undefined
      : { id: makeId(), accumulated: toText(submission.context, 'context') };
  const { dedupeKey } = submission;
  if (dedupeKey !== undefined) toText(dedupeKey, 'dedupe_key', limits.dedupeKeyBytesMax);
  return {
    context,
    job: {
      id: makeId(),
      plugin: plugin.name,
      command: submission.command,
      payload,
      submittedBy: submission.submittedBy,
      actor: submission.actor,
      maxAttempts: plugin.retry.maxAttempts,
      ...(dedupeKey === undefined
        ? {}
        : { dedupe: { key: dedupeKey, ttlMs: dedupeTtlMs, blockInFlight: false } }),
      ...(context === undefined ? {} : { eventContextId: context.id }),
    },
  };
}

function toText(value: unknown, field: string, bytesMax: number = limits.payloadBytesMax): string {
  const unsafe = findUnsafe(value, limits.jsonDepthMax);
  if (unsafe !== undefined) {
    throw new DuctileError('INPUT_INVALID', `${field}: ${unsafe}`, { place: field });
  }
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) <= bytesMax) return text;
  const message = `the ${field} is larger than ${bytesMax} bytes`;
  throw new DuctileError('PAYLOAD_TOO_LARGE', message, { place: field });
}
