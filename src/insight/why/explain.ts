import { parseStoredJson, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { findEndpoint } from '../../webhook/store.service.ts';
import { findMissingTargets } from '../../webhook/check-entry.service.ts';
import { toRunPayload, matchPipelines, matchRoutes } from '../../pipeline/language/pipeline.ts';
import { type Job, isTerminal } from '../../job/job.ts';
import type { Engine } from '../../engine/engine.ts';
import { readKeyIds } from '../../access/vault.service.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { DeliveryRow, WebhookRow } from '../../webhook/types.ts';
import type { Condition } from '../../pipeline/language/condition.ts';
import { formatCondition } from '../../pipeline/language/draw.ts';
import type { Run } from '../../pipeline/run/run.ts';
import {
  deliveryEventIn,
  eventBehind,
  toEventBaggage,
  senderOf,
  type Signal,
} from '../../signal/signal.ts';
import type { Context } from '../../operation/context.ts';
import { findRetries } from '../../job/shapes.service.ts';
import { explainRun } from '../../pipeline/run/waits.service.ts';
import { isVisible } from '../../operation/visibility.ts';
import { listDeliveryWork } from '../../webhook/delivery.operations.ts';
import { findAgentOutcomes } from '../../webhook/outcomes.service.ts';
import { showWebhook } from '../../webhook/shapes.operations.ts';
import type { Explanation } from './explanation.ts';
import { explainDelivery, explainWebhook, type WebhookFacts } from './webhook.ts';
import { explainDirective } from './directive.ts';
import { type SubjectRecord, findSubject, kindScopes, splitSubjectName } from './find-subject.ts';
import {
  readServiceFacts,
  readOriginLinks,
  readPluginFacts,
  readProgress,
  readWaitFacts,
} from './facts.ts';
import { explainJob, type StepRunFacts } from './job.ts';
import { explainRunRecord } from './run.ts';
import { readOneScheduleFacts } from './schedule-holds.ts';
import { explainSchedule } from './schedule.ts';
import { explainSignal, type SignalFacts } from './signal.ts';
import { DuctileError } from '../../base/errors.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import type { Incident } from '../types.ts';
import { allows } from '../../access/scopes.ts';
import { readEngineFindings } from '../ledger-findings.operations.ts';
import { locateKeyFile, type MissingKey } from '../findings/credentials.ts';
import { explainFinding, explainIncident } from './finding.ts';
import { explainPipeline, explainPlugin } from './plugin.ts';

/** Reads the facts about a subject, and passes them to the pure function that explains its kind. */
export async function explainRecord(context: Context, found: SubjectRecord): Promise<Explanation> {
  const { engine } = context;
  if (found.kind === 'job') return await readJobExplanation(context, found.job);
  if (found.kind === 'run') return await readRunExplanation(context, found.run);
  if (found.kind === 'schedule')
    return explainSchedule(await readOneScheduleFacts(engine, found.row));
  if (found.kind === 'webhook') return await readWebhookExplanation(engine, found.row);
  if (found.kind === 'signal') return await readSignalExplanation(context, found.signal);
  if (found.kind === 'delivery') return await readDeliveryExplanation(engine, found.delivery);
  if (found.kind === 'plugin') return await readPluginExplanation(context, found.name);
  if (found.kind === 'pipeline') return await readPipelineExplanation(context, found.name);
  if (found.kind === 'finding') return await readFindingExplanation(context, found.finding);
  if (found.kind === 'incident') return await readIncidentExplanation(context, found.incident);
  return explainDirective({ directive: found.directive, service: await readServiceFacts(engine) });
}

const SHORT_LIST = { limit: 5 };

function isVisibleTo({ principal }: Context): (signal: Signal) => boolean {
  return (signal) => isVisible(signal, principal);
}

async function readJobExplanation(context: Context, job: Job): Promise<Explanation> {
  const { engine } = context;
  const { ledger } = engine;
  const { plugin, command } = job;
  const isFailed = isTerminal(job.status) && !['succeeded', 'cancelled'].includes(job.status);
  const [links, attempts, [breaker], retries, run, progress, facts] = await Promise.all([
    readOriginLinks(ledger, { job }, isVisibleTo(context)),
    ledger.attempts.listByJob([job.id]),
    ledger.breakers.list({ plugin, command }),
    findRetries(ledger, [job]),
    readStepRun(ledger, job),
    job.status === 'running' ? readProgress(ledger, job) : undefined,
    isFailed ? readPluginFacts(engine, plugin) : undefined,
  ]);
  return explainJob({
    job,
    links,
    attempts,
    breaker,
    retriedAs: retries.get(job.id),
    run,
    progress,
    plugin: facts,
    waits:
      job.status === 'queued'
        ? await readWaitFacts(engine, job, await readServiceFacts(engine))
        : undefined,
  });
}

async function readStepRun(ledger: Ledger, job: Job): Promise<StepRunFacts | undefined> {
  if (job.runId === null || !isTerminal(job.status)) return undefined;
  const [run, [successor]] = await Promise.all([
    ledger.runs.find(job.runId),
    ledger.runs.list({ revivedFrom: job.runId, limit: 1 }),
  ]);
  return run && { id: run.id, status: run.status, revivedAs: successor?.id };
}

async function readRunExplanation(context: Context, run: Run): Promise<Explanation> {
  const { engine } = context;
  const { ledger } = engine;
  const { concurrencyKey } = run;
  const isQueuedForKey = run.status === 'queued' && run.dueAt === null && concurrencyKey !== null;
  const [links, waits, service, [successor], rivals, graph] = await Promise.all([
    readOriginLinks(ledger, { run }, isVisibleTo(context)),
    explainRun(ledger, run),
    readServiceFacts(engine),
    ledger.runs.list({ revivedFrom: run.id, limit: 1 }),
    isQueuedForKey ? ledger.runs.list({ concurrencyKey, ...SHORT_LIST }) : [],
    run.completedAt === null ? ledger.runs.findDefinition(run.definitionHash) : undefined,
  ]);
  const jobId = waits[0]?.job_id ?? null;
  const job = jobId === null ? undefined : await ledger.jobs.find(jobId);
  return explainRunRecord({
    run,
    links,
    waits,
    nodes: graph?.nodes,
    service,
    rivals,
    revivedAs: successor?.id,
    job: job?.status === 'queued' ? await readWaitFacts(engine, job, service) : undefined,
  });
}

async function readWebhookExplanation(engine: Engine, row: WebhookRow): Promise<Explanation> {
  const [service, deliveries] = await Promise.all([
    readServiceFacts(engine),
    engine.ledger.deliveries.list({ webhookId: row.id, ...SHORT_LIST }),
  ]);
  const started = await readStarted(engine.ledger, deliveries[0]);
  const { enabled, rate_limit_per_minute: rate } = showWebhook(row);
  const { api, webhooks } = engine.config;
  return explainWebhook({
    row,
    isEnabled: enabled,
    hasListener: api.enabled || webhooks.enabled,
    ratePerMinute: rate,
    service,
    missingKey: findMissingKey(engine, row),
    refusedCount: engine.webhookIntake.rejected.count(row.id, performance.now()),
    missing: findMissingTargets([row], engine).get(row.id),
    deliveries,
    ...started,
  });
}

function findMissingKey(engine: Engine, { id, sealed }: WebhookRow): MissingKey | undefined {
  if (sealed === null || readKeyIds(engine).includes(sealed.keyId)) return undefined;
  const file = engine.tenant === undefined ? locateKeyFile(engine.config) : undefined;
  return { keyId: sealed.keyId, credentials: [], webhooks: [id], file };
}

/** Reads what a delivery started, newest first. */
async function readStarted(
  ledger: Ledger,
  delivery: DeliveryRow | undefined,
): Promise<Pick<WebhookFacts, 'jobs' | 'runs' | 'outcome'>> {
  if (delivery === undefined) return { jobs: [], runs: [] };
  const [{ jobs, runs }, outcomes] = await Promise.all([
    listDeliveryWork(ledger, delivery),
    findAgentOutcomes(ledger, [delivery]),
  ]);
  return { jobs: jobs.toReversed(), runs, outcome: outcomes.get(delivery.id) };
}

async function readDeliveryExplanation(
  { ledger, config }: Engine,
  delivery: DeliveryRow,
): Promise<Explanation> {
  const [started, webhook] = await Promise.all([
    listDeliveryWork(ledger, delivery),
    ledger.webhooks.find(delivery.webhookId),
  ]);
  const isReplayable =
    webhook !== undefined || findEndpoint(config.webhooks, delivery.webhookId) !== undefined;
  const hasWebhook = webhook !== undefined;
  return explainDelivery({ delivery, hasWebhook, isReplayable, ...started });
}

async function readSignalExplanation(context: Context, signal: Signal): Promise<Explanation> {
  const { ledger, config } = context.engine;
  const [links, jobs, runs, cause] = await Promise.all([
    readOriginLinks(ledger, { signal }, isVisibleTo(context)),
    ledger.jobs.list({ sourceEventId: signal.id, order: 'oldest', limit: limits.pageRowsMax }),
    ledger.runs.list({ sourceEventId: signal.id, limit: limits.pageRowsMax }),
    signal.jobId === null ? undefined : ledger.jobs.find(signal.jobId),
  ]);
  return explainSignal({
    signal,
    links,
    jobs,
    runs,
    hopsMax: config.service.maxHops,
    isRuntimeCaused: cause?.runtimeCaused === true,
    ...findSignalHandlers(context.engine, signal, await readBaggage(ledger, cause)),
  });
}

function readBaggage(ledger: Ledger, cause: Job | undefined): Promise<JsonObject> {
  const id = cause?.eventContextId ?? null;
  return id === null ? Promise.resolve({}) : ledger.runs.readContext(id);
}

/** Finds the handlers of a stored signal. Its data may be masked, so conditions can give another result. */
function findSignalHandlers(
  { config, pipelines }: Engine,
  signal: Signal,
  context: JsonObject,
): Pick<SignalFacts, 'handlers' | 'refusals'> {
  const event = {
    source: senderOf(signal.source),
    type: signal.type,
    event: eventBehind(signal),
  };
  const routes = matchRoutes(config.routes, event).map(({ to }) => `a route to ${to}`);
  const payload = toRunPayload(parseStoredJson(signal.data));
  const baggage = { ...context, ...toEventBaggage(deliveryEventIn(signal)) };
  const trigger = { ...event, payload, context: baggage };
  const { started, skipped, rejected } = matchPipelines(pipelines, trigger);
  return {
    handlers: [...routes, ...started.map(({ name }) => `the pipeline ${name}`)],
    refusals: [
      ...rejected.map(({ name, when }) => ({ pipeline: name, reason: describeMismatch(when) })),
      ...skipped.map(({ pipeline, message }) => ({ pipeline: pipeline.name, reason: message })),
    ],
  };
}

function describeMismatch(when: Condition | undefined): string {
  return when === undefined ? 'it does not match' : `${formatCondition(when)} does not hold`;
}

/** The newest one is explained, the others are listed. */
const NEWEST_FEW = { limit: 4 };

async function readPluginExplanation(context: Context, name: string): Promise<Explanation> {
  const { engine } = context;
  const { plugin, part } = splitSubjectName(name);
  const filter = { plugin, ...(part === undefined ? {} : { command: part }) };
  const [service, facts, breakers, findings, jobs] = await Promise.all([
    readServiceFacts(engine),
    readPluginFacts(engine, plugin),
    engine.ledger.breakers.list(filter),
    readFindings(context),
    isAllowed(context, 'job') ? engine.ledger.jobs.list({ ...filter, ...NEWEST_FEW }) : [],
  ]);
  const about = findings.filter(({ key, detail }) => isAbout({ key, detail }, plugin, part));
  const [newest] = jobs;
  const isGood = newest === undefined || newest.status === 'succeeded';
  const deeper = isGood ? undefined : await explainRecord(context, { kind: 'job', job: newest });
  return explainPlugin({ name, service, plugin: facts, breakers, findings: about, jobs, deeper });
}

function isAbout(
  { key, detail }: Pick<LiveFinding, 'key' | 'detail'>,
  plugin: string,
  command: string | undefined,
): boolean {
  if (command !== undefined) return key === `${plugin}/${command}`;
  return key === plugin || key.startsWith(`${plugin}/`) || detail?.['plugin'] === plugin;
}

async function readPipelineExplanation(context: Context, name: string): Promise<Explanation> {
  const { ledger } = context.engine;
  const [findings, runs] = await Promise.all([
    readFindings(context),
    isAllowed(context, 'run') ? ledger.runs.list({ pipeline: name, ...NEWEST_FEW }) : [],
  ]);
  const about = findings.filter(({ key, detail }) => key === name || detail?.['pipeline'] === name);
  const [newest] = runs;
  const deeper =
    newest === undefined ? undefined : await explainRecord(context, { kind: 'run', run: newest });
  return explainPipeline({ name, findings: about, runs, deeper });
}

async function readFindingExplanation(
  context: Context,
  finding: LiveFinding,
): Promise<Explanation> {
  return explainFinding(finding, await explainObject(context, finding));
}

async function readIncidentExplanation(context: Context, incident: Incident): Promise<Explanation> {
  const findings = incident.closedAt === null ? await readFindings(context) : [];
  const finding = findings.find((one) => findingId(one) === findingId(incident));
  const deeper = finding === undefined ? undefined : await explainObject(context, finding);
  return explainIncident(incident, finding, deeper);
}

/** Reads the findings of `doctor`. A caller without the scope gets none. */
async function readFindings(context: Context): Promise<LiveFinding[]> {
  return isAllowed(context, 'finding') ? await readEngineFindings(context.engine) : [];
}

function isAllowed({ principal }: Context, kind: keyof typeof kindScopes): boolean {
  return allows(principal.scopes, kindScopes[kind]);
}

/** The kinds of subjects that don't explain a finding. */
const otherKinds: ReadonlySet<string> = new Set(['incident', 'finding', 'plugin', 'pipeline']);

async function explainObject(
  context: Context,
  { why }: LiveFinding,
): Promise<Explanation | undefined> {
  if (why === undefined) return undefined;
  try {
    const found = await findSubject(context, why, 'any');
    return otherKinds.has(found.kind) ? undefined : await explainRecord(context, found);
  } catch (error) {
    // The object may be pruned, or the caller may not see it.
    if (error instanceof DuctileError && error.kind.status < 500) return undefined;
    throw error;
  }
}
