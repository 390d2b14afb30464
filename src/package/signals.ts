import { makeId } from '../base/ids.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Directive } from '../directive/directive.ts';
import { configChecksum } from './package.ts';
import type { SignalDraft } from '../signal/signal.ts';

/** A signal with what it says, before that is text. */
export interface PayloadSignal {
  readonly signal: SignalDraft;
  readonly payload: JsonObject;
}

type Told = Pick<Directive, 'id' | 'type' | 'params' | 'actor'>;

/**
 * What happens to a package has signals of its own around those of its directive: asked for before it,
 * begun after it, and at the end before it again.
 */
export function withPackage(
  own: PayloadSignal,
  told: Told,
  { moment, tenant, why }: Moment,
): readonly PayloadSignal[] {
  const verb = verbs.get(told.type);
  if (verb === undefined || !moments.has(moment)) return [own];
  const said: unknown = parseJson(told.params);
  const params = isObject(said) ? said : {};
  // The directive that installs it gives it its id.
  const installationId = textOf(params['installation_id'] ?? told.id);
  const about: About = { verb, moment, tenant, params, installationId, directiveId: told.id };
  const packageSignal = makePackageSignal(about, own.signal, {
    directive_id: told.id,
    actor: told.actor,
    ...why,
  });
  return moment === 'started' ? [own, packageSignal] : [packageSignal, own];
}

interface Moment {
  readonly moment: string;
  readonly tenant: string;
  /** Of one that failed. */
  readonly why: JsonObject;
}

interface About extends Omit<Moment, 'why'> {
  readonly verb: string;
  readonly params: JsonObject;
  readonly installationId: string;
  readonly directiveId: string;
}

const verbs: ReadonlyMap<string, string> = new Map(
  ['install', 'upgrade', 'enable', 'disable', 'uninstall'].map((verb) => [`package.${verb}`, verb]),
);
const moments: ReadonlySet<string> = new Set(['requested', 'started', 'completed', 'failed']);

/** It has in common with the directive's own who asked, and what it belongs to. */
function makePackageSignal(about: About, own: SignalDraft, said: JsonObject): PayloadSignal {
  const { params, installationId } = about;
  const version = params['version'];
  const payload: JsonObject = {
    installation_id: installationId,
    package_slug: textOf(params['package_slug']),
    ...(version === undefined ? {} : { version }),
    ...said,
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
      dedupeKey: keyOf(about),
    },
  };
}

/**
 * The same fact is there once. Each key ends in what tells this request from the next one for the same
 * package: an installation after an uninstallation is a fact of its own.
 */
function keyOf({ verb, moment, tenant, params, installationId, directiveId }: About): string {
  const word = words.get(moment) ?? moment;
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

const words: ReadonlyMap<string, string> = new Map([
  ['requested', 'req'],
  ['started', 'start'],
  ['completed', 'done'],
  ['failed', 'fail'],
]);

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
