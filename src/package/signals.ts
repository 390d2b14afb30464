import { makeId } from '../base/ids.ts';
import { compact, isObject, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Directive } from '../directive/directive.ts';
import { configChecksum } from './package.ts';
import type { SignalDraft } from '../signal/signal.ts';

/** A signal and its payload, before it is text. */
export interface PayloadSignal {
  readonly signal: SignalDraft;
  readonly payload: JsonObject;
}

type PackageDirective = Pick<Directive, 'id' | 'type' | 'params' | 'actor'>;

/**
 * Adds the signal of the package to that of its directive: before it for the request and the end, after
 * it for the start. Other directives only have their own signal.
 */
export function addPackageSignal(
  own: PayloadSignal,
  directive: PackageDirective,
  { moment, tenant, why }: Moment,
): readonly PayloadSignal[] {
  const verb = verbs.get(directive.type);
  if (verb === undefined || !moments.has(moment)) return [own];
  const parsed: unknown = parseJson(directive.params);
  const params = isObject(parsed) ? parsed : {};
  // An installation has the id of the directive that installs it.
  const installationId = textOf(params['installation_id'] ?? directive.id);
  const about: PackageMoment = {
    verb,
    moment,
    tenant,
    params,
    installationId,
    directiveId: directive.id,
  };
  const fields = { directive_id: directive.id, actor: directive.actor, ...why };
  const added = createSignal(about, own.signal, fields);
  return moment === 'started' ? [own, added] : [added, own];
}

interface Moment {
  readonly moment: string;
  readonly tenant: string;
  /** The error of a failed directive. */
  readonly why: JsonObject;
}

interface PackageMoment extends Omit<Moment, 'why'> {
  readonly verb: string;
  readonly params: JsonObject;
  readonly installationId: string;
  readonly directiveId: string;
}

const verbs: ReadonlyMap<string, string> = new Map(
  ['install', 'upgrade', 'enable', 'disable', 'uninstall'].map((verb) => [`package.${verb}`, verb]),
);
const moments: ReadonlySet<string> = new Set(['requested', 'started', 'completed', 'failed']);

/** Creates a signal with the correlation and causation of the directive's own. */
function createSignal(about: PackageMoment, own: SignalDraft, fields: JsonObject): PayloadSignal {
  const { params, installationId } = about;
  const version = params['version'];
  const payload: JsonObject = {
    installation_id: installationId,
    package_slug: textOf(params['package_slug']),
    ...compact({ version }),
    ...fields,
  };
  return {
    payload,
    signal: {
      ...own,
      id: makeId(),
      type: `package.${about.verb}.${about.moment}`,
      subjectType: 'package_installation',
      subjectId: installationId,
      data: JSON.stringify(payload),
      dedupeKey: createDedupeKey(about),
    },
  };
}

/**
 * Returns the dedupe key. It ends in the id of this request, because an installation after an
 * uninstallation is a separate event.
 */
function createDedupeKey({
  verb,
  moment,
  tenant,
  params,
  installationId,
  directiveId,
}: PackageMoment): string {
  const word = shortMoments.get(moment) ?? moment;
  const head = `pkg_${verb}_${word}:${tenant}`;
  if (verb !== 'install') return `${head}:${installationId}:${directiveId}`;
  const version = textOf(params['version']);
  if (moment === 'started') return `${head}:${installationId}`;
  if (moment === 'completed') return `${head}:${installationId}:${version}`;
  if (moment === 'failed') return `${head}:${installationId}:1`;
  const config = isObject(params['config']) ? params['config'] : {};
  const slug = textOf(params['package_slug']);
  return `${head}:${slug}:${version}:${configChecksum(config)}:${installationId}`;
}

const shortMoments: ReadonlyMap<string, string> = new Map([
  ['requested', 'req'],
  ['started', 'start'],
  ['completed', 'done'],
  ['failed', 'fail'],
]);

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
