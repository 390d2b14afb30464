import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { RunNews } from '../ledger/runs.ts';
import type { Emission, ToldSignal } from '../ledger/signals.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { toSignalDraft, type SignalReport } from '../signal/envelope.ts';
import { senderOf } from '../signal/signal.ts';
import { followSignal } from './follow-runtime.ts';
import type { FollowRules } from './follow.ts';

/** A signal as somebody outside reports it. */
export interface SignalSubmission extends SignalReport {
  /** Made by the caller when the same request may come again; a new one otherwise. */
  readonly id?: string | undefined;
  readonly actor: string;
}

export interface EmitOptions {
  readonly ledger: Pick<Ledger, 'emit'>;
  readonly rules: () => FollowRules;
  readonly catalog: () => Catalog;
  /** Throws while nothing is accepted. */
  readonly admit: () => void;
  /** Something was recorded that others may be waiting to see. */
  readonly onEmitted: () => void;
  readonly onNews: (news: RunNews) => void;
}

/** Where signals come in that no attempt emitted: each with what follows from it, or not at all. */
export interface SignalDoor {
  /** Committed when it resolves. */
  emit(submission: SignalSubmission): Promise<ToldSignal>;
  /** What would follow; refuses what `emit` would refuse. */
  foresee(submission: SignalSubmission): Emission;
}

interface Waiting {
  readonly emission: Emission;
  readonly resolve: (told: ToldSignal) => void;
  readonly reject: (error: unknown) => void;
}

/** As with jobs, what comes in one turn of the event loop is one batch and one commit. */
export function makeSignalDoor(options: EmitOptions): SignalDoor {
  const { ledger, onNews } = options;
  let waiting: Waiting[] = [];

  const record = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const { told, news } = await ledger.emit(batch.map(({ emission }) => emission));
      batch.forEach(({ emission, resolve }, index) =>
        resolve(told[index] ?? { signalId: emission.signal.id, created: true }),
      );
      onNews(news);
      options.onEmitted();
    } catch (error) {
      // What the ledger refuses of one is no reason to refuse the others that came with it.
      if (batch.length > 1 && !(error instanceof DuctileError)) {
        for (const one of batch) await record([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void record(batch);
  };

  return {
    foresee: (submission) => toEmission(submission, options),
    async emit(submission) {
      options.admit();
      const emission = toEmission(submission, options);
      return await new Promise((resolve, reject) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ emission, resolve, reject });
      });
    },
  };
}

function toEmission(
  submission: SignalSubmission,
  { rules, catalog }: Pick<EmitOptions, 'rules' | 'catalog'>,
): Emission {
  const { id = makeId(), actor, data, occurredAt } = submission;
  const nowMs = Date.now();
  const signal = toSignalDraft(submission, { id, actor, nowMs });
  refusePluginName(signal.source, catalog());
  const current = rules();
  const scope: { payload: JsonObject; context: JsonObject } = { payload: data, context: {} };
  const followers = followSignal(signal, scope, current, {
    submittedBy: 'route',
    actor: signal.source,
    runtimeCaused: false,
    key: id,
    atMs: occurredAt === undefined ? nowMs : fromTimestamp(occurredAt),
  });
  if (followers.jobs.length + followers.runs.length === 0) current.onUnmatched?.(signal);
  return { signal, ...followers };
}

/** A route with `from: <plugin>` trusts that the plugin itself said it. */
function refusePluginName(source: string, { plugins }: Catalog): void {
  if (!plugins.has(senderOf(source))) return;
  throw new DuctileError('INPUT_INVALID', `source is ${source}, the name of a plugin`, {
    place: 'source',
    hint: 'Name the sender otherwise: only the plugin itself speaks under its name.',
  });
}
