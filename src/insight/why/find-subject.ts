import { DuctileError } from '../../base/errors.ts';
import { describeMissingWebhook } from '../../webhook/store.service.ts';
import {
  isDeclared,
  scheduleNotFound,
  type ScheduleName,
} from '../../schedule/schedule.directives.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Context } from '../../operation/context.ts';
import {
  ambiguousName,
  findById,
  ID_LENGTH,
  type NamedCandidate,
} from '../../operation/find-by-id.ts';
import { allows } from '../../access/scopes.ts';
import { isVisible } from '../../operation/visibility.ts';
import { subjectKinds, type SubjectKind } from './explanation.ts';
import { readEngineFindings } from '../ledger-findings.operations.ts';
import type { Directive } from '../../directive/directive.ts';
import type { Job } from '../../job/job.ts';
import type { Incident } from '../types.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import type { DeliveryRow, WebhookRow } from '../../webhook/types.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Signal } from '../../signal/signal.ts';

/** The scope that a caller needs to ask about each kind. */
export const kindScopes: Readonly<Record<SubjectKind, string>> = {
  job: 'jobs:ro',
  run: 'runs:ro',
  schedule: 'schedules:ro',
  webhook: 'webhooks:ro',
  signal: 'events:ro',
  directive: 'directives:ro',
  delivery: 'webhooks:ro',
  incident: 'incidents:ro',
  finding: 'system:ro',
  plugin: 'plugin:ro',
  pipeline: 'plugin:ro',
};

export function listVisibleKinds({ scopes: granted }: Context['principal']): SubjectKind[] {
  return subjectKinds.filter((one) => allows(granted, kindScopes[one]));
}

/** Finds the subject that a text names. An ambiguous text is refused with all candidates. */
export async function findSubject(
  context: Context,
  given: string,
  givenKind: SubjectKind | 'any',
): Promise<SubjectRecord> {
  const { kind, id } = parseSubject(given, givenKind);
  if (kind !== 'any') {
    if (!allows(context.principal.scopes, kindScopes[kind])) throw notFound(id);
    return await findOfKind(context, kind, id);
  }
  const visible = listVisibleKinds(context.principal);
  const found = isIdLike(id) ? await findByPrefix(context, id, visible) : undefined;
  return found ?? (await findByName(context, id, visible));
}

type IdKind = 'job' | 'run' | 'signal' | 'directive' | 'delivery' | 'incident';

const idKinds: readonly IdKind[] = ['run', 'job', 'signal', 'directive', 'delivery', 'incident'];

/** The most candidates of a kind that are read. */
const CANDIDATES_MAX = 5;

async function findByPrefix(
  context: Context,
  given: string,
  visible: readonly SubjectKind[],
): Promise<SubjectRecord | undefined> {
  const id = given.toLowerCase();
  const wanted = idKinds.filter((kind) => visible.includes(kind));
  const all = await Promise.all(wanted.map((kind) => listByPrefix(context, kind, id)));
  const found = all.flat();
  const [only] = found;
  if (found.length <= 1 || id.length === ID_LENGTH) return only;
  return preferRun(found) ?? refuseAmbiguous(given, found);
}

/** Returns the run if all candidates are that run and its own steps. */
function preferRun(found: readonly SubjectRecord[]): SubjectRecord | undefined {
  const runs = found.flatMap((one) => (one.kind === 'run' ? [one] : []));
  const [run] = runs;
  if (run === undefined || runs.length > 1) return undefined;
  const isOwn = (one: SubjectRecord): boolean =>
    one.kind === 'run' || (one.kind === 'job' && one.job.runId === run.run.id);
  return found.every(isOwn) ? run : undefined;
}

function refuseAmbiguous(given: string, found: readonly SubjectRecord[]): never {
  throw ambiguousName(given, found.map(toCandidate));
}

function toCandidate(found: SubjectRecord): NamedCandidate {
  const { kind } = found;
  if (kind === 'job') {
    return { kind, id: found.job.id, label: `${found.job.plugin} ${found.job.command}` };
  }
  if (kind === 'run') return { kind, id: found.run.id, label: found.run.pipeline };
  if (kind === 'signal') return { kind, id: found.signal.id, label: found.signal.type };
  if (kind === 'directive') return { kind, id: found.directive.id, label: found.directive.type };
  if (kind === 'delivery') return { kind, id: found.delivery.id, label: found.delivery.webhookId };
  if (kind === 'incident') {
    return { kind, id: found.incident.id, label: `${found.incident.kind} ${found.incident.key}` };
  }
  if (kind === 'schedule') return { kind, id: `${found.row.plugin}/${found.row.scheduleId}` };
  if (kind === 'webhook') return { kind, id: found.row.id };
  if (kind === 'finding') return { kind, id: findingId(found.finding) };
  return { kind, id: found.name };
}

interface PrefixPage {
  readonly idPrefix: string;
  readonly limit: number;
}

type SubjectList = (ledger: Ledger, page: PrefixPage) => Promise<SubjectRecord[]>;

const lists: Readonly<Record<IdKind, SubjectList>> = {
  job: async ({ jobs }, page) => (await jobs.list(page)).map((job) => ({ kind: 'job', job })),
  run: async ({ runs }, page) => (await runs.list(page)).map((run) => ({ kind: 'run', run })),
  signal: async ({ signals }, page) =>
    (await signals.list(page)).map((signal) => ({ kind: 'signal', signal })),
  directive: async ({ directives }, page) =>
    (await directives.list(page)).map((directive) => ({ kind: 'directive', directive })),
  delivery: async ({ deliveries }, page) =>
    (await deliveries.list(page)).map((delivery) => ({ kind: 'delivery', delivery })),
  incident: async ({ incidents }, page) =>
    (await incidents.list(page)).map((incident) => ({ kind: 'incident', incident })),
};

/** Lists the subjects whose id begins so. A caller who may not see a signal doesn't find it. */
async function listByPrefix(
  { engine, principal }: Context,
  kind: IdKind,
  idPrefix: string,
): Promise<SubjectRecord[]> {
  const found = await lists[kind](engine.ledger, { idPrefix, limit: CANDIDATES_MAX });
  return found.filter((one) => one.kind !== 'signal' || isVisible(one.signal, principal));
}

/** Kinds that have names. A schedule comes first: it explains more than its plugin. */
const nameKinds: readonly SubjectKind[] = ['schedule', 'webhook', 'finding', 'pipeline', 'plugin'];

async function findByName(
  context: Context,
  id: string,
  visible: readonly SubjectKind[],
): Promise<SubjectRecord> {
  const found: SubjectRecord[] = [];
  for (const kind of nameKinds.filter((one) => visible.includes(one))) {
    const one = await findOfKind(context, kind, id).catch(ignoreMissing);
    const isCovered = kind === 'plugin' && found.some((other) => other.kind === 'schedule');
    if (one !== undefined && !isCovered) found.push(one);
  }
  const [only] = found;
  if (only !== undefined) return found.length === 1 ? only : refuseAmbiguous(id, found);
  const { config, ledger } = context.engine;
  if (visible.includes('schedule') && isDeclared(parseScheduleName(id), config)) {
    throw await scheduleNotFound(parseScheduleName(id), config, ledger);
  }
  throw notFound(id);
}

function notFound(id: string): DuctileError {
  return new DuctileError('SUBJECT_NOT_FOUND', `nothing matches ${id}`, { place: 'id' });
}

/** Ignores only that nothing was found, so that other kinds are tried. An ambiguous id stays an error. */
function ignoreMissing(error: unknown): undefined {
  if (error instanceof DuctileError && error.code.endsWith('_NOT_FOUND')) return undefined;
  throw error;
}

async function findOfKind(context: Context, kind: SubjectKind, id: string): Promise<SubjectRecord> {
  const { ledger, config, catalog, pipelines } = context.engine;
  if (kind === 'webhook') {
    const row = await ledger.webhooks.find(id);
    if (row !== undefined) return { kind, row };
    throw await describeMissingWebhook(id, ledger);
  }
  if (kind === 'schedule') {
    const name = parseScheduleName(id);
    const [row] = await ledger.schedules.list({ ...name, limit: 1 });
    if (row !== undefined) return { kind, row };
    throw await scheduleNotFound(name, config, ledger);
  }
  if (kind === 'finding') {
    const finding = id.includes(':')
      ? (await readEngineFindings(context.engine)).find((one) => findingId(one) === id)
      : undefined;
    if (finding !== undefined) return { kind, finding };
    throw notFound(id);
  }
  if (kind === 'pipeline') {
    if (pipelines.some(({ name }) => name === id)) return { kind, name: id };
    const [run] = await ledger.runs.list({ pipeline: id, limit: 1 });
    if (run !== undefined) return { kind, name: id };
    throw new DuctileError('PIPELINE_NOT_FOUND', `there is no pipeline ${id}`, { place: 'id' });
  }
  if (kind === 'plugin') {
    const { plugin, part } = splitSubjectName(id);
    const isKnown = catalog.plugins.has(plugin) || config.plugins[plugin] !== undefined;
    const [job] = await ledger.jobs.list({
      plugin,
      ...(part === undefined ? {} : { command: part }),
      limit: 1,
    });
    const declared = catalog.plugins.get(plugin)?.manifest.commands ?? {};
    if (job !== undefined || (isKnown && (part === undefined || Object.hasOwn(declared, part)))) {
      return { kind, name: id };
    }
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${id}`, { place: 'id' });
  }
  return await findOneById(context, kind, id.toLowerCase());
}

async function findOneById(context: Context, kind: IdKind, id: string): Promise<SubjectRecord> {
  const list = async () =>
    (await listByPrefix(context, kind, id)).map((found) => ({ id: toCandidate(found).id, found }));
  const { found } = await findById(id, {
    noun: kind,
    nouns: kind === 'delivery' ? 'deliveries' : `${kind}s`,
    errorCode: missingCodes[kind],
    findExact: async () => (await list()).find((one) => one.id === id),
    listByPrefix: list,
  });
  return found;
}

const missingCodes = {
  job: 'JOB_NOT_FOUND',
  run: 'RUN_NOT_FOUND',
  signal: 'SIGNAL_NOT_FOUND',
  directive: 'DIRECTIVE_NOT_FOUND',
  delivery: 'DELIVERY_NOT_FOUND',
  incident: 'INCIDENT_NOT_FOUND',
} as const;

function parseScheduleName(id: string): ScheduleName {
  const { plugin, part = 'default' } = splitSubjectName(id);
  return { plugin, scheduleId: part };
}

/** A requested subject: its kind, if that is known, and an id or a name. */
interface SubjectName {
  readonly kind: SubjectKind | 'any';
  readonly id: string;
}

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const attemptPattern = new RegExp(`^(${uuid})[-. #]\\d+$`, 'i');
const kindPattern = new RegExp(`^(${[...subjectKinds, 'attempt'].join('|')})s?[ :]+(\\S.*)$`, 'i');

/**
 * Parses the names that people type and that Ductile prints, such as `job 0199a1b2`,
 * `webhook:deploys` and `feed poll`. The id of an attempt is the id of its job and a number.
 */
export function parseSubject(text: string, kind: SubjectKind | 'any' = 'any'): SubjectName {
  const named = kind === 'any' ? kindPattern.exec(text) : null;
  const word = named?.[1]?.toLowerCase();
  const rest = (named?.[2] ?? text).trim();
  const attempt = attemptPattern.exec(rest);
  if (attempt?.[1] !== undefined) return { kind: 'job', id: attempt[1].toLowerCase() };
  if (word === 'attempt') return { kind: 'job', id: rest };
  const id = /^\S+ \S+$/.test(rest) ? rest.replace(' ', '/') : rest;
  return { kind: word === undefined ? kind : (word as SubjectKind), id };
}

/** Returns whether a text can be an id or the start of one. */
function isIdLike(text: string): boolean {
  return /^[0-9a-f-]{4,36}$/i.test(text);
}

/** Splits a name such as `feed/poll`. Without a slash, it is the name of a plugin. */
export function splitSubjectName(name: string): {
  readonly plugin: string;
  readonly part?: string;
} {
  const at = name.indexOf('/');
  return at === -1 ? { plugin: name } : { plugin: name.slice(0, at), part: name.slice(at + 1) };
}

/** A subject with its record. */
export type SubjectRecord =
  | { readonly kind: 'job'; readonly job: Job }
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'schedule'; readonly row: ScheduleRow }
  | { readonly kind: 'webhook'; readonly row: WebhookRow }
  | { readonly kind: 'signal'; readonly signal: Signal }
  | { readonly kind: 'directive'; readonly directive: Directive }
  | { readonly kind: 'delivery'; readonly delivery: DeliveryRow }
  | { readonly kind: 'incident'; readonly incident: Incident }
  | { readonly kind: 'finding'; readonly finding: LiveFinding }
  | { readonly kind: 'plugin'; readonly name: string }
  | { readonly kind: 'pipeline'; readonly name: string };
